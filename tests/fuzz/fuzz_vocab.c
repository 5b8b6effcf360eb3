/* vocab.txt: of an accepted file every entry is found again by its text. */
#include "model/vocab.h"
#include "tests/fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_vocab *v = NULL;
    lx_error err = {0};
    lx_status st = lx_vocab_load(subject_file(data, n), &v, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    for (int32_t id = 0; id < lx_vocab_size(v); id++) {
        int32_t again = lx_vocab_is_special(v, id) ? lx_vocab_special(v, lx_vocab_text(v, id))
                                                   : lx_vocab_char(v, lx_vocab_codepoint(v, id));
        MUST(again == id);
    }
    lx_vocab_free(v);
    return 0;
}
