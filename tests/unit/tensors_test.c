// tensors_test - safetensors written and read back, and every hostile header refused in its own words.
#include <check.h>
#include <fedgate/file.h>
#include <fedgate/tensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64], path[128];

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/fedgate-tensors-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
}

static void teardown(void)
{
    Error error = ERROR_INIT;
    ck_assert(file_remove_tree(folder, &error));
}

static const float weights[6] = {1, 2, 3, 4, 5, 6};
static const int64_t steps[1] = {1LL << 40};
static const Tensor pair[2] = {
    {.name = "weights",
     .type = TENSOR_F32,
     .shape = {2, 3},
     .rank = 2,
     .data = weights,
     .bytes = sizeof weights},
    {.name = "step", .type = TENSOR_I64, .rank = 0, .data = steps, .bytes = 8},
};

START_TEST(what_is_written_reads_back_with_metadata)
{
    Error error = ERROR_INIT;
    const char *metadata[] = {"format", "fedgate", "note", "a \"quoted\" word", NULL};
    ck_assert_msg(tensors_write(path, pair, 2, metadata, &error), "%s", error.message);
    OWNED(TensorFile, tensors_free) *file = tensors_read(path, 1 << 20, &error);
    ck_assert_msg(file != NULL, "%s", error.message);
    ck_assert_uint_eq(tensors_count(file), 2);
    const Tensor *read = tensors_need(file, "weights", TENSOR_F32, 2, (int64_t[]){2, -1}, &error);
    ck_assert_msg(read != NULL, "%s", error.message);
    ck_assert_mem_eq(read->data, weights, sizeof weights);
    ck_assert_int_eq(((const int64_t *)tensors_find(file, "step")->data)[0], steps[0]);
    ck_assert_str_eq(tensors_metadata(file, "note"), "a \"quoted\" word");
    ck_assert_ptr_null(tensors_metadata(file, "absent"));
    Digest a, b;
    tensor_digest(&pair[0], &a);
    tensor_digest(read, &b);
    ck_assert(digest_equal(&a, &b));
    tensor_digest(&pair[1], &b);
    ck_assert(!digest_equal(&a, &b));
}
END_TEST

START_TEST(the_file_follows_the_published_layout)
{
    Error error = ERROR_INIT;
    ck_assert(tensors_write(path, pair, 2, NULL, &error));
    FILE *stream = fopen(path, "rb");
    unsigned char bytes[512];
    size_t size = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    size_t header = bytes[0] | (size_t)bytes[1] << 8;
    ck_assert_uint_eq(header % 8, 0);
    ck_assert_uint_eq(size, 8 + header + sizeof weights + 8);
    const char *expected = "{\"weights\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                           "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}";
    ck_assert_mem_eq(bytes + 8, expected, strlen(expected));
    ck_assert_mem_eq(bytes + 8 + header, weights, sizeof weights);
}
END_TEST

START_TEST(a_file_is_never_written_over)
{
    Error error = ERROR_INIT;
    ck_assert(tensors_write(path, pair, 1, NULL, &error));
    ck_assert(!tensors_write(path, pair, 2, NULL, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFLICT);
    OWNED(TensorFile, tensors_free) *file = tensors_read(path, 1 << 20, &error);
    ck_assert_uint_eq(tensors_count(file), 1);
}
END_TEST

START_TEST(a_tensor_that_contradicts_itself_is_not_written)
{
    Error error = ERROR_INIT;
    Tensor twice[2] = {pair[0], pair[0]}, wrong = pair[0], nameless = pair[0];
    wrong.bytes = 20;
    nameless.name[0] = '\0';
    ck_assert(!tensors_write(path, twice, 2, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "two tensors named 'weights'"));
    ck_assert(!tensors_write(path, &wrong, 1, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "does not give its 20 bytes"));
    ck_assert(!tensors_write(path, &nameless, 1, NULL, &error));
    ck_assert(!file_exists(path));
}
END_TEST

// length 0: the header's own; data: bytes of zeros after it
static const struct {
    const char *what, *header;
    uint64_t length;
    int data;
    const char *message;
} hostile[] = {
    {"header not JSON", "{nonsense", 0, 0, "header"},
    {"header a list", "[]", 0, 0, "not an object"},
    {"header length over the cap", "{}", 1000001, 0, "over the limit"},
    {"header length of all ones", "{}", UINT64_MAX, 0, "over the limit"},
    {"header longer than the file", "{}", 100, 0, "longer than the file"},
    {"two tensors of one name",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     0, 2, "a"},
    {"entry not an object", "{\"a\":7}", 0, 0, "entry is not an object"},
    {"unknown dtype", "{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 0, 1,
     "unknown dtype 'F8'"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 0, 1, "unknown dtype ''"},
    {"shape missing", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 0, 1, "shape is not a list"},
    {"shape negative", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 0, 1,
     "other than sizes"},
    {"shape a real number", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 0, 1,
     "other than sizes"},
    {"rank too high", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,1]}}", 0, 1,
     "rank 5"},
    {"product overflow",
     "{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]}}", 0, 1,
     "overflows"},
    {"offsets missing", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 0, 1, "not a pair"},
    {"offsets backwards", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 0, 1,
     "run backwards"},
    {"offsets negative", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 0, 1,
     "run backwards"},
    {"hole at the beginning", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 0, 2,
     "hole of 1 bytes"},
    {"overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     0, 3, "overlaps"},
    {"shape and bytes differ", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 0, 4,
     "for a shape of 8 bytes"},
    {"misaligned",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
     0, 5, "not a multiple"},
    {"bytes after the last tensor", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 0, 3,
     "2 bytes after the last"},
    {"file cut", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 0, 3,
     "ends 1 bytes before"},
    {"metadata not texts", "{\"__metadata__\":{\"a\":1}}", 0, 0, "is not a text"},
    {"metadata a list", "{\"__metadata__\":[]}", 0, 0, "metadata is not an object"},
    {"name too long",
     "{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":"
     "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     0, 1, "over the limit of 63"},
};

START_TEST(a_hostile_header_is_refused_in_its_own_words)
{
    uint64_t length = hostile[_i].length ? hostile[_i].length : strlen(hostile[_i].header);
    FILE *stream = fopen(path, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> (8 * i) & 255), stream);
    fputs(hostile[_i].header, stream);
    for (int i = 0; i < hostile[_i].data; i++)
        fputc(0, stream);
    fclose(stream);
    Error error = ERROR_INIT;
    TensorFile *file = tensors_read(path, 1 << 20, &error);
    ck_assert_msg(file == NULL, "%s was accepted", hostile[_i].what);
    ck_assert_int_eq(error.kind, ERROR_DATA);
    ck_assert_msg(strstr(error.message, hostile[_i].message), "%s: %s", hostile[_i].what, error.message);
    ck_assert_ptr_nonnull(strstr(error.message, path));
}
END_TEST

START_TEST(files_that_cannot_be_tensor_files_are_refused)
{
    Error error = ERROR_INIT;
    ck_assert_ptr_null(tensors_read(path, 100, &error));
    ck_assert_int_eq(error.kind, ERROR_IO);
    ck_assert_ptr_null(tensors_read(folder, 100, &error));
    fclose(fopen(path, "wb"));
    ck_assert_ptr_null(tensors_read(path, 100, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "too few"));
    ck_assert(file_remove(path, &error));
    ck_assert(tensors_write(path, pair, 2, NULL, &error));
    ck_assert_ptr_null(tensors_read(path, 64, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "over the limit of 64"));
}
END_TEST

START_TEST(what_is_needed_must_fit)
{
    Error error = ERROR_INIT;
    ck_assert(tensors_write(path, pair, 2, NULL, &error));
    OWNED(TensorFile, tensors_free) *file = tensors_read(path, 1 << 20, &error);
    ck_assert_ptr_null(tensors_need(file, "bias", TENSOR_F32, 1, (int64_t[]){2}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "'bias' is missing"));
    ck_assert_ptr_null(tensors_need(file, "weights", TENSOR_F64, 2, (int64_t[]){2, 3}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "dtype F32, not F64"));
    ck_assert_ptr_null(tensors_need(file, "weights", TENSOR_F32, 1, (int64_t[]){6}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "rank 2, not 1"));
    ck_assert_ptr_null(tensors_need(file, "weights", TENSOR_F32, 2, (int64_t[]){2, 4}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "extent 3 in dimension 1, not 4"));
}
END_TEST

// A way to the bytes that counts how many were asked for, and can fail.
typedef struct Counted {
    const Text *file;
    size_t *asked;
    bool fails;
} Counted;

static bool read_counted(const void *context, void *to, size_t bytes, uint64_t offset, Error *error)
{
    const Counted *counted = context;
    *counted->asked += bytes;
    if (counted->fails || offset + bytes > counted->file->length)
        return FAIL(error, ERROR_IO, 0, "no byte %llu", (unsigned long long)offset);
    memcpy(to, counted->file->data + offset, bytes);
    return true;
}

START_TEST(a_header_alone_says_where_everything_is)
{
    Error error = ERROR_INIT;
    FILE *stream = fopen(path, "w+b");
    const char *metadata[] = {"note", "x", NULL};
    ck_assert_msg(tensors_write_fd(fileno(stream), pair, 2, metadata, &error), "%s", error.message);
    fclose(stream);
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    ck_assert(file_read(path, &file, &error));
    size_t asked = 0;
    Counted counted = {&file, &asked, false};
    TensorFile *index = tensors_index(read_counted, &counted, file.length, &error);
    ck_assert_msg(index != NULL, "%s", error.message);
    ck_assert_uint_eq(asked, file.length - sizeof weights - sizeof steps);
    const Tensor *found = tensors_find(index, "weights");
    ck_assert_ptr_null(found->data);
    ck_assert_mem_eq(file.data + found->offset, weights, sizeof weights);
    ck_assert_uint_eq(tensors_find(index, "step")->offset, file.length - sizeof steps);
    ck_assert_str_eq(tensors_metadata(index, "note"), "x");
    tensors_free(index);
    ck_assert_ptr_null(tensors_index(read_counted, &counted, file.length - 1, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "before the last tensor"));
    counted.fails = true;
    error_clear(&error);
    ck_assert_ptr_null(tensors_index(read_counted, &counted, file.length, &error));
    ck_assert_int_eq(error.kind, ERROR_IO);
}
END_TEST

// The library everybody reads these files with refuses a longer header, so none is written.
START_TEST(a_header_over_100_mb_is_not_written)
{
    Error error = ERROR_INIT;
    size_t length = 100 * 1000 * 1000;
    char *huge = malloc(length + 1);
    memset(huge, 'x', length);
    huge[length] = '\0';
    const char *metadata[] = {"note", huge, NULL};
    FILE *stream = fopen(path, "w+b");
    ck_assert(!tensors_write_fd(fileno(stream), pair, 2, metadata, &error));
    ck_assert_int_eq(error.kind, ERROR_DATA);
    ck_assert_msg(strstr(error.message, "limit of 100000000 bytes"), "%s", error.message);
    ck_assert_int_eq(fseek(stream, 0, SEEK_END), 0);
    ck_assert_int_eq(ftell(stream), 0);
    fclose(stream);
    free(huge);
}
END_TEST

START_TEST(very_many_tensors_are_refused)
{
    Error error = ERROR_INIT;
    SCOPED_TEXT header;
    text_init(&header, 1 << 20);
    text_add_char(&header, '{');
    for (int i = 0; i <= 10000; i++)
        text_add_format(&header, "%s\"%d\":{}", i ? "," : "", i);
    text_add_char(&header, '}');
    FILE *stream = fopen(path, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)(header.length >> (8 * i) & 255), stream);
    fputs(text_string(&header), stream);
    fclose(stream);
    ck_assert_ptr_null(tensors_read(path, 1 << 20, &error));
    ck_assert_msg(strstr(error.message, "10001 tensors are over the limit of 10000"), "%s", error.message);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tensors");
    TCase *t = tcase_create("safetensors");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, what_is_written_reads_back_with_metadata);
    tcase_add_test(t, the_file_follows_the_published_layout);
    tcase_add_test(t, a_file_is_never_written_over);
    tcase_add_test(t, a_tensor_that_contradicts_itself_is_not_written);
    tcase_add_loop_test(t, a_hostile_header_is_refused_in_its_own_words, 0,
                        sizeof hostile / sizeof hostile[0]);
    tcase_add_test(t, files_that_cannot_be_tensor_files_are_refused);
    tcase_add_test(t, what_is_needed_must_fit);
    tcase_add_test(t, a_header_alone_says_where_everything_is);
    tcase_add_test(t, a_header_over_100_mb_is_not_written);
    tcase_add_test(t, very_many_tensors_are_refused);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
