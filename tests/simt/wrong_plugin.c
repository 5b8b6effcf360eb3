/* A library named like the cuda back end's that is not for this program, in the way WRONG says. */
#include "kernels/plugin.h"

enum { NO_ENTRY, NO_PLUGIN, OTHER_ABI, OTHER_TABLE };

#if WRONG != 0
__attribute__((visibility("default"))) const lx_plugin *lx_kernels_plugin(void);

const lx_plugin *lx_kernels_plugin(void)
{
    static const lx_plugin plugin = {LX_PLUGIN_ABI - (WRONG == OTHER_ABI),
                                     sizeof(lx_kernels) - 8 * (WRONG == OTHER_TABLE), NULL};
    return WRONG == NO_PLUGIN ? NULL : &plugin;
}
#endif
