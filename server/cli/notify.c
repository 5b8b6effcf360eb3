/* Readiness for the service manager (see notify.h). */
#include "server/cli/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"

/* A path, or with "@" before it a name that is in no folder, which begins with NUL. 0: too long. */
static socklen_t put_address(const char *name, struct sockaddr_un *out)
{
    size_t n = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || n >= sizeof out->sun_path || (name[0] != '/' && name[0] != '@'))
        return 0;
    memcpy(out->sun_path, name, n);
    if (name[0] == '@')
        out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void lx_notify(const char *message)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    if (name == NULL || name[0] == '\0')
        return;
    socklen_t size = put_address(name, &address);
    if (size == 0) {
        lx_log(LX_LOG_WARN, "NOTIFY_SOCKET is no address of a socket: %.100s", name);
        return;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t n = strlen(message);
    if (fd < 0 ||
        sendto(fd, message, n, MSG_NOSIGNAL, (const struct sockaddr *)&address, size) != (ssize_t)n)
        lx_log(LX_LOG_WARN, "the service manager was not told: %s", strerror(errno));
    if (fd >= 0)
        (void)close(fd);
}
