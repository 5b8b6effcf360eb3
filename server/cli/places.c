/* Where models are looked for (see cli.h). */
#include "server/cli/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The folder the program lies in; "" if the system does not say. */
static void program_folder(char out[LX_PLACE_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", out, LX_PLACE_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = '\0';
}

static lx_status put_path(char out[LX_PLACE_BYTES], const char *folder, const char *name,
                          lx_error *err)
{
    int n = snprintf(out, LX_PLACE_BYTES, "%s%s", folder, name);
    if (n < 0 || n >= LX_PLACE_BYTES)
        return lx_fail(err, LX_ERR_INVALID, "model", "the name of a folder is too long: %.100s",
                       folder);
    return LX_OK;
}

lx_status lx_places_models(char out[LX_PLACE_BYTES], lx_error *err)
{
    static const char *const near[] = {"/../share/linnet/models", "/../weights"};
    const char *set = getenv("LINNET_MODELS");
    if (set != NULL && set[0] != '\0')
        return put_path(out, set, "", err);
    char program[LX_PLACE_BYTES];
    program_folder(program);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        if (put_path(out, program, near[i], NULL) == LX_OK && is_folder(out)) {
            char *tidy = realpath(out, NULL); /* the log and errors show it */
            if (tidy != NULL)
                (void)put_path(out, tidy, "", NULL);
            free(tidy);
            return LX_OK;
        }
    }
    if (put_path(out, "/usr/share/linnet/models", "", NULL) == LX_OK && is_folder(out))
        return LX_OK;
    return lx_fail(err, LX_ERR_NOT_FOUND, "models",
                   "no folder of models is there (%.80s%s, %s, %s); name one with --models",
                   program, near[0], near[1] + 1, out);
}

/* Whether `folder` has the model `name`, or is that model; then its path is in *out. */
static bool has_model(const char *folder, const char *name, char out[LX_PLACE_BYTES])
{
    char tail[LX_PLACE_BYTES], config[LX_PLACE_BYTES];
    const char *last = strrchr(folder, '/');
    if (put_path(tail, "/", name, NULL) == LX_OK && put_path(out, folder, tail, NULL) == LX_OK &&
        (is_folder(out) || lx_model_is_file(out)))
        return true;
    return last != NULL && strcmp(last + 1, name) == 0 &&
           put_path(out, folder, "", NULL) == LX_OK &&
           put_path(config, folder, "/config.json", NULL) == LX_OK && access(config, F_OK) == 0;
}

lx_status lx_places_model(const char *given, char out[LX_PLACE_BYTES], lx_error *err)
{
    if (strchr(given, '/') != NULL || is_folder(given) || lx_model_is_file(given))
        return put_path(out, given, "", err);
    char models[LX_PLACE_BYTES];
    lx_status st = lx_places_models(models, err);
    for (const char *at = models; st == LX_OK && at != NULL;) {
        size_t n = strcspn(at, ":");
        char folder[LX_PLACE_BYTES];
        memcpy(folder, at, n);
        folder[n] = '\0';
        if (has_model(folder, given, out))
            return LX_OK;
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
    return st != LX_OK
               ? st
               : lx_fail(err, LX_ERR_NOT_FOUND, "model",
                         "no model %.80s: it is neither a folder or GGUF file here nor in %.120s",
                         given, models);
}

const char *lx_places_font(void)
{
    static const char *const fonts[] = {
        "/usr/share/fonts/truetype/arphic/ukai.ttc",
        "/usr/share/fonts/opentype/noto/NotoSerifCJK-Bold.ttc",
        "/usr/share/fonts/opentype/noto/NotoSerifCJK-Regular.ttc",
        "/usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc",
        "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
        "/usr/share/fonts/truetype/arphic/uming.ttc",
        "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc",
        "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
        "/usr/share/fonts/truetype/arphic-gkai00mp/gkai00mp.ttf",
        "/usr/share/fonts/truetype/arphic-gbsn00lp/gbsn00lp.ttf",
    };
    for (size_t i = 0; i < sizeof fonts / sizeof *fonts; i++)
        if (access(fonts[i], R_OK) == 0)
            return fonts[i];
    return NULL;
}
