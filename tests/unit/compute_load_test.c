// compute_load_test - a back end in a file: absent, refused and unsupported are three answers, and nothing of
// a refused one runs, its constructors included.
#include <check.h>
#include <elf.h>
#include <fedgate/compute.h>
#include <fedgate/file.h>
#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void check_answer(const char *folder, const char *name, ErrorKind kind, const char *words)
{
    char path[512];
    Error error = ERROR_INIT;
    snprintf(path, sizeof path, "%s/%s", FEDGATE_BINARY_DIR, folder);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", path, 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open(name, 1, clock_real(), ledger, &error);
    ck_assert_ptr_null(device);
    ck_assert_msg(error.kind == kind, "%s", error.message);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);
}

typedef struct Answer {
    const char *how;
    ErrorKind kind;
    const char *words;
} Answer;
static const Answer answers[] = {
    {"abi", ERROR_CONFIG, "is refused: contract 1, not 5"},
    {"size", ERROR_CONFIG, "is refused: contract of 8 bytes"},
    {"symbol", ERROR_CONFIG, "has no 'fedgate_backend'"},
    {"renamed", ERROR_CONFIG, "fedgate_fake.so' calls itself 'cpu'"},
    {"empty", ERROR_CONFIG, "'fake' is refused: a required slot is empty"},
    {"unsupported", ERROR_DEVICE, "'fake' is unsupported here: no device of this kind"},
    {"nowhere", ERROR_UNAVAILABLE, "'fake' is absent"},
};

START_TEST(test_answers)
{
    char folder[64];
    snprintf(folder, sizeof folder, "tests/backends/%s", answers[_i].how);
    check_answer(folder, "fake", answers[_i].kind, answers[_i].words);
}
END_TEST

START_TEST(test_absent_names_what_was_tried)
{
    check_answer("tests/backends/nowhere", "fake", ERROR_UNAVAILABLE,
                 "tests/backends/nowhere/fedgate_fake.so'");
    check_answer("tests/backends/nowhere", "fake", ERROR_UNAVAILABLE, "lib/fedgate/fedgate_fake.so'");
}
END_TEST

// -- files that are no module, or nearly one

typedef struct Image {
    unsigned char *bytes;
    size_t size;
} Image;

static Image read_image(const char *how)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/backends/%s/fedgate_fake.so", FEDGATE_BINARY_DIR, how);
    FILE *stream = fopen(path, "rb");
    ck_assert_ptr_nonnull(stream);
    Image image = {.bytes = malloc(1 << 22)};
    ck_assert_ptr_nonnull(image.bytes);
    image.size = fread(image.bytes, 1, 1 << 22, stream);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_uint_gt(image.size, sizeof(Elf64_Ehdr));
    return image;
}

// What device_open says of a file of these bytes.
static void open_bytes(const void *bytes, size_t size, Error *ret_error)
{
    char folder[] = "/tmp/fedgate-backend-XXXXXX", path[64];
    Error error = ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fedgate_fake.so", folder);
    FILE *stream = fopen(path, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, size, stream), size);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", folder, 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open("fake", 1, clock_real(), ledger, ret_error);
    ck_assert_ptr_null(device);
    ck_assert_msg(file_remove_tree(folder, &error), "%s", error.message);
}

static void check_refused(const void *bytes, size_t size, const char *words)
{
    Error error = ERROR_INIT;
    open_bytes(bytes, size, &error);
    ck_assert_msg(error.kind == ERROR_CONFIG && strstr(error.message, "'fake' is refused: file '/tmp/"), "%s",
                  error.message);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);
}

// A file that is there but is no module is refused, not passed over.
START_TEST(test_not_a_module)
{
    static const char script[] = "#!/bin/sh: a line that is longer than the header of an ELF file would be\n";
    check_refused("", 0, "it is no ELF file");
    check_refused("no module\n", 10, "it is no ELF file");
    check_refused(script, sizeof script, "it is no ELF file");
}
END_TEST

START_TEST(test_not_a_file)
{
    char folder[] = "/tmp/fedgate-backend-XXXXXX", path[64];
    Error error = ERROR_INIT, ignored = ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fedgate_fake.so", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", folder, 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open("fake", 1, clock_real(), ledger, &error);
    ck_assert_ptr_null(device);
    ck_assert_msg(error.kind == ERROR_CONFIG && strstr(error.message, "no regular file"), "%s",
                  error.message);
    ck_assert_msg(file_remove_tree(folder, &ignored), "%s", ignored.message);
}
END_TEST

// Cut anywhere, it is refused or, past what the loader maps, still says what is wrong with its contract.
START_TEST(test_truncated)
{
    Image image = read_image("abi");
    for (size_t size = 0; size < image.size; size += 1 + image.size / 97) {
        Error error = ERROR_INIT;
        open_bytes(image.bytes, size, &error);
        ck_assert_msg(error.kind == ERROR_CONFIG && strstr(error.message, "is refused: "), "%s",
                      error.message);
    }
    free(image.bytes);
}
END_TEST

static Elf64_Shdr *find_section(const Image *image, uint32_t type)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)image->bytes;
    Elf64_Shdr *sections = (Elf64_Shdr *)(image->bytes + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == type)
            return &sections[i];
    ck_abort_msg("no section of type %u", type);
}

static void spoil(Image *image, int how)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)image->bytes;
    Elf64_Phdr *segments = (Elf64_Phdr *)(image->bytes + header->e_phoff);
    Elf64_Shdr *symbols = find_section(image, SHT_DYNSYM);
    Elf64_Sym *symbol = (Elf64_Sym *)(image->bytes + symbols->sh_offset);
    switch (how) {
    case 0:
        header->e_ident[EI_CLASS] = ELFCLASS32;
        break;
    case 1:
        header->e_type = ET_EXEC;
        break;
    case 2:
        header->e_shnum = 0;
        break;
    case 3:
        header->e_shoff = UINT64_MAX - 8;
        break;
    case 4:
        header->e_phoff = image->size;
        break;
    case 5:
        header->e_phnum = UINT16_MAX;
        break;
    case 6:
        symbols->sh_type = SHT_NULL;
        break;
    case 7:
        symbols->sh_size = UINT64_MAX;
        break;
    case 8:
        symbols->sh_offset = UINT64_MAX;
        break;
    case 9:
        symbols->sh_link = UINT32_MAX;
        break;
    case 10:
        for (size_t i = 0; i < symbols->sh_size / sizeof *symbol; i++)
            symbol[i].st_name = UINT32_MAX;
        break;
    case 11:
        for (size_t i = 0; i < symbols->sh_size / sizeof *symbol; i++)
            symbol[i].st_value = UINT64_MAX - 2;
        break;
    case 12:
        for (size_t i = 0; i < header->e_phnum; i++)
            segments[i].p_offset = UINT64_MAX - 1;
        break;
    case 13:   // a symbol that code would have to make
        for (size_t i = 0; i < symbols->sh_size / sizeof *symbol; i++)
            symbol[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
        break;
    case 14:
        symbols->sh_size = 0;
        break;
    default:
        symbols->sh_entsize = 1;
        break;
    }
}

static const char *const spoiled_words[] = {
    "no shared library",  "no shared library",        "no segments or sections",  "ends before",
    "ends before",        "no segments or sections",  "lists no symbols",         "longer than can be",
    "ends before",        "lists no symbols",         "has no 'fedgate_backend'", "lies in no segment",
    "lies in no segment", "has no 'fedgate_backend'", "empty or longer",          "lists no symbols",
};

// Its constructor would end the program: that it does not is part of each case.
START_TEST(test_spoiled)
{
    Image image = read_image("abi");
    spoil(&image, _i);
    check_refused(image.bytes, image.size, spoiled_words[_i]);
    free(image.bytes);
}
END_TEST

// Bytes changed at random in the headers: refused or opened as far as the contract, never a crash.
START_TEST(test_random_bytes)
{
    Image image = read_image("abi");
    Elf64_Ehdr *header = (Elf64_Ehdr *)image.bytes;
    const size_t tables[] = {0, header->e_phoff, header->e_shoff};
    unsigned char *changed = malloc(image.size);
    ck_assert_ptr_nonnull(changed);
    for (uint64_t round = 0; round < 200; round++) {
        Error error = ERROR_INIT;
        memcpy(changed, image.bytes, image.size);
        for (uint64_t k = 0; k < 4; k++) {
            size_t at = tables[random_bits(round, 2 * k) % 3] + random_bits(round, 2 * k + 1) % 600;
            if (at < image.size)
                changed[at] = (unsigned char)random_bits(round + 1000, k);
        }
        open_bytes(changed, image.size, &error);
        ck_assert_msg(error.kind == ERROR_CONFIG, "%s", error.message);
    }
    free(changed);
    free(image.bytes);
}
END_TEST

#ifdef FEDGATE_HAS_CUDA
// The module that was built loads without any library of CUDA; where there is a card it opens.
START_TEST(test_cuda)
{
    Error error = ERROR_INIT;
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", FEDGATE_BINARY_DIR "/src", 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open("cuda", 1, clock_real(), ledger, &error);
    ck_assert_msg(device != NULL || (error.kind == ERROR_DEVICE &&
                                     strstr(error.message, "compute back end 'cuda' is unsupported here: ")),
                  "%s", error.message);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("compute_load");
    TCase *load = tcase_create("load");
    tcase_add_loop_test(load, test_answers, 0, sizeof answers / sizeof answers[0]);
    tcase_add_test(load, test_absent_names_what_was_tried);
    tcase_add_test(load, test_not_a_module);
    tcase_add_test(load, test_not_a_file);
    tcase_add_test(load, test_truncated);
    tcase_add_loop_test(load, test_spoiled, 0, sizeof spoiled_words / sizeof spoiled_words[0]);
    tcase_add_test(load, test_random_bytes);
#ifdef FEDGATE_HAS_CUDA
    tcase_add_test(load, test_cuda);
#endif
    suite_add_tcase(suite, load);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
