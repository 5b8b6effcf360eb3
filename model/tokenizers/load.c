/* Which reader a tokenizer's file needs (see tokenizer.h). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/formats/file.h"
#include "model/tokenizers/internal.h"

enum { HEAD_BYTES = 16 };

/* The first bytes that are not blank, as a string. */
static lx_status read_head(const char *path, char *head, lx_error *err)
{
    int fd = -1;
    size_t size = 0;
    char bytes[256];
    lx_status st = lx_file_open(path, LX_TOKENIZER_MAX_FILE, &fd, &size, err);
    if (st != LX_OK)
        return st;
    ssize_t n = read(fd, bytes, sizeof bytes - 1);
    (void)close(fd);
    if (n < 0)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: cannot be read", lx_file_label(path));
    bytes[n] = '\0';
    (void)snprintf(head, HEAD_BYTES, "%s", bytes + strspn(bytes, " \t\r\n"));
    return LX_OK;
}

/* "1 '\x00' 1": a number, a blank, a literal of Python. */
static bool is_world(const char *head)
{
    size_t digits = strspn(head, "0123456789");
    const char *literal = head + digits + 1;
    if (digits == 0 || head[digits] != ' ')
        return false;
    literal += *literal == 'b';
    return *literal == '\'' || *literal == '"';
}

lx_status lx_tokenizer_load_file(const char *path, lx_tokenizer **out, lx_error *err)
{
    char head[HEAD_BYTES];
    lx_status st = read_head(path, head, err);
    if (st != LX_OK)
        return st;
    size_t mark = strncmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of the byte order */
    if (head[mark] == '{')
        return lx_hugging_face_load(path, out, err);
    return (is_world(head) ? lx_world_load : lx_characters_load)(path, out, err);
}

lx_status lx_tokenizer_load(const char *folder, lx_tokenizer **out, lx_error *err)
{
    static const char *const names[] = {"tokenizer.json", "rwkv_vocab_v20230424.txt", "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n < 0 || (size_t)n >= sizeof path)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s: the path is too long",
                           lx_file_label(folder));
        lx_status st = lx_tokenizer_load_file(path, out, err);
        if (st != LX_ERR_NOT_FOUND)
            return st;
    }
    return lx_fail(err, LX_ERR_NOT_FOUND, NULL,
                   "%s: no tokenizer.json, rwkv_vocab_v20230424.txt or vocab.txt",
                   lx_file_label(folder));
}
