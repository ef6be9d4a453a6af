// archive_test - gzip read whole or not at all: members, cuts, junk, limits and two hundred flipped bits.
#include <fedgate/archive.h>

#include <fcntl.h>
#include <fedgate/file.h>
#include <fedgate/random.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <unistd.h>

// "a,y\n1,0\n2,1\n" by gzip -n.
static const unsigned char first[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x4b,
                                      0xd4, 0xa9, 0xe4, 0x32, 0xd4, 0x31, 0xe0, 0x32, 0xd2, 0x31, 0xe4,
                                      0x02, 0x00, 0xd1, 0xa1, 0x9b, 0x99, 0x0c, 0x00, 0x00, 0x00};

typedef struct Collected {
    char bytes[1 << 16];
    size_t length;
    size_t stop_after;
} Collected;

static bool collect(void *context, const void *bytes, uint64_t length, Error *error)
{
    Collected *to = context;
    if (to->stop_after && to->length + length > to->stop_after)
        return FAIL(error, ERROR_DATA, 0, "enough");
    ck_assert(to->length + length <= sizeof to->bytes);
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
    return true;
}

static int unnamed_file(const void *bytes, size_t length)
{
    Error error = ERROR_INIT;
    int fd;
    char *folder = support_folder_new();
    ASSERT_OK(file_temporary(folder, &fd, &error), &error);
    ASSERT_OK(file_write_all(fd, bytes, length, &error), &error);
    support_folder_remove(folder);
    return fd;
}

static bool stream(const void *bytes, size_t length, uint64_t maximum, Collected *to, Error *error)
{
    int fd = unnamed_file(bytes, length);
    to->length = 0;
    bool good = archive_stream_gzip(fd, maximum, collect, to, error);
    close(fd);
    return good;
}

START_TEST(every_member_is_read_in_order)
{
    unsigned char two[2 * sizeof first];
    memcpy(two, first, sizeof first);
    memcpy(two + sizeof first, first, sizeof first);
    static Collected out;
    Error error = ERROR_INIT;
    ASSERT_OK(stream(two, sizeof two, 1000, &out, &error), &error);
    ck_assert_uint_eq(out.length, 24);
    ck_assert_int_eq(memcmp(out.bytes, "a,y\n1,0\n2,1\na,y\n1,0\n2,1\n", 24), 0);
}
END_TEST

START_TEST(unpacking_reports_the_bytes_written)
{
    int from = unnamed_file(first, sizeof first), to = unnamed_file("", 0);
    uint64_t bytes = 0;
    char text[13] = "";
    Error error = ERROR_INIT;
    ASSERT_OK(archive_unpack_gzip(from, to, 12, &bytes, &error), &error);
    ck_assert_uint_eq(bytes, 12);
    ck_assert_int_eq(pread(to, text, 12, 0), 12);
    ck_assert_str_eq(text, "a,y\n1,0\n2,1\n");
    close(from);
    close(to);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    static Collected out;
    Error error = ERROR_INIT;
    for (size_t length = 1; length < sizeof first; length++)
        ASSERT_FAILS(stream(first, length, 1000, &out, &error), &error, ERROR_DATA, "cut short");
    ASSERT_FAILS(stream(first, 0, 1000, &out, &error), &error, ERROR_DATA, "empty");
}
END_TEST

START_TEST(bytes_after_the_last_member_are_named_with_their_offset)
{
    unsigned char junk[sizeof first + 3];
    memcpy(junk, first, sizeof first);
    memcpy(junk + sizeof first, "\0\0\0", 3);
    static Collected out;
    Error error = ERROR_INIT;
    ASSERT_FAILS(stream(junk, sizeof junk, 1000, &out, &error), &error, ERROR_DATA, "at offset 32");
    junk[sizeof first] = 0x1f;
    ASSERT_FAILS(stream(junk, sizeof junk, 1000, &out, &error), &error, ERROR_DATA,
                 "gzip member 2 at offset 32");
}
END_TEST

START_TEST(a_wrong_checksum_or_length_in_the_trailer_is_refused)
{
    unsigned char broken[sizeof first];
    static Collected out;
    Error error = ERROR_INIT;
    for (size_t at = sizeof first - 8; at < sizeof first; at++) {
        memcpy(broken, first, sizeof first);
        broken[at] ^= 0x40;
        ASSERT_FAILS(stream(broken, sizeof broken, 1000, &out, &error), &error, ERROR_DATA, "damaged");
    }
}
END_TEST

START_TEST(more_output_than_the_limit_is_refused)
{
    static Collected out;
    Error error = ERROR_INIT;
    ASSERT_FAILS(stream(first, sizeof first, 11, &out, &error), &error, ERROR_MEMORY, "limit of 11 bytes");
}
END_TEST

START_TEST(a_sink_may_stop_the_reading)
{
    static Collected out;
    out.stop_after = 4;
    Error error = ERROR_INIT;
    ASSERT_FAILS(stream(first, sizeof first, 1000, &out, &error), &error, ERROR_DATA, "enough");
    out.stop_after = 0;
}
END_TEST

typedef struct Compare {
    const char *expected;
    uint64_t length, at;
    bool same;
} Compare;

static bool compare(void *context, const void *bytes, uint64_t length, Error *error)
{
    (void)error;
    Compare *with = context;
    with->same = with->same && with->at + length <= with->length &&
                 memcmp(with->expected + with->at, bytes, length) == 0;
    with->at += length;
    return true;
}

// The file of the worked example: 200 single bits flipped, one after the other.
START_TEST(no_flipped_bit_gives_other_bytes_and_success)
{
    Text packed;
    Error error = ERROR_INIT;
    text_init(&packed, 1 << 20);
    ASSERT_OK(file_read(FEDGATE_SOURCE_DIR "/fixtures/fed_loader/rows.csv.gz", &packed, &error), &error);
    int fd = unnamed_file(packed.data, packed.length), plain = unnamed_file("", 0);
    uint64_t bytes = 0;
    ASSERT_OK(archive_unpack_gzip(fd, plain, UINT64_MAX, &bytes, &error), &error);
    char *expected = malloc(bytes);
    ck_assert_int_eq(pread(plain, expected, bytes, 0), (ssize_t)bytes);
    int passed = 0;
    for (uint64_t flip = 0; flip < 200; flip++) {
        uint64_t bit = random_bits(7, flip) % (packed.length * 8);
        if (flip < 80)
            bit = flip;   // every bit of the header: some do not matter, and then must not change a byte
        char broken = (char)(packed.data[bit / 8] ^ 1 << bit % 8);
        ck_assert_int_eq(pwrite(fd, &broken, 1, (off_t)(bit / 8)), 1);
        Compare with = {expected, bytes, 0, true};
        if (archive_stream_gzip(fd, UINT64_MAX, compare, &with, &error)) {
            ck_assert_msg(with.same && with.at == bytes, "flipped bit %llu passed with other bytes",
                          (unsigned long long)bit);
            ck_assert_msg(bit < 80, "flipped bit %llu behind the header passed", (unsigned long long)bit);
            passed++;
        }
        error_clear(&error);
        ck_assert_int_eq(pwrite(fd, &packed.data[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    ck_assert_int_lt(passed, 60);   // time, extra flags and system of the header carry no data
    free(expected);
    close(fd);
    close(plain);
    text_done(&packed);
}
END_TEST

START_TEST(gzip_is_known_by_its_magic)
{
    char *folder = support_folder_new();
    Error error = ERROR_INIT;
    ASSERT_OK(file_write_new(support_path(folder, "plain.gz"), "a,y\n", 4, 0600, &error), &error);
    ASSERT_OK(file_write_new(support_path(folder, "packed.csv"), first, sizeof first, 0600, &error), &error);
    int plain = open(support_path(folder, "plain.gz"), O_RDONLY | O_CLOEXEC);
    int packed = open(support_path(folder, "packed.csv"), O_RDONLY | O_CLOEXEC);
    ck_assert(!archive_is_gzip(plain));
    ck_assert(archive_is_gzip(packed));
    ck_assert(!archive_is_gzip(-1));
    close(plain);
    close(packed);
    support_folder_remove(folder);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("archive");
    TCase *gzip = tcase_create("gzip");
    tcase_set_timeout(gzip, 120);   // thousands of flipped bits
    tcase_add_test(gzip, every_member_is_read_in_order);
    tcase_add_test(gzip, unpacking_reports_the_bytes_written);
    tcase_add_test(gzip, a_file_cut_anywhere_is_refused);
    tcase_add_test(gzip, bytes_after_the_last_member_are_named_with_their_offset);
    tcase_add_test(gzip, a_wrong_checksum_or_length_in_the_trailer_is_refused);
    tcase_add_test(gzip, more_output_than_the_limit_is_refused);
    tcase_add_test(gzip, a_sink_may_stop_the_reading);
    tcase_add_test(gzip, no_flipped_bit_gives_other_bytes_and_success);
    tcase_add_test(gzip, gzip_is_known_by_its_magic);
    suite_add_tcase(s, gzip);
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
