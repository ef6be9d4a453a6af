// archive_tar_test - the one form of tar: what is written reads back, and only plain files are read.
#include "pack_fixture.h"

#include <archive.h>
#include <archive_entry.h>

static char *folder;
static Error error;
static Text bytes;

static void set_up(void)
{
    folder = support_folder_new();
    error = ERROR_INIT;
    text_init(&bytes, PACK_BYTES);
}
static void tear_down(void)
{
    text_done(&bytes);
    support_folder_remove(folder);
}

static TarReader *open_bytes(int *ret_fd)
{
    const char *path = support_path(folder, "tar");
    pack_write_bytes(path, &bytes);
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    TarReader *reader = archive_open_tar(*ret_fd, &error);
    ASSERT_OK(reader != NULL, &error);
    return reader;
}

START_TEST(what_is_written_reads_back_with_any_size_and_name)
{
    char name[ARCHIVE_NAME_SIZE];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    Pack pack = {.count = 0}, again = {.count = 0};
    SCOPED_TEXT large;
    text_init(&large, PACK_BYTES);
    for (int i = 0; i < 100000; i++)
        text_add_char(&large, (char)(i * 7));
    pack_add(&pack, "empty", "", 0);
    pack_add(&pack, name, "x", 1);
    pack_add(&pack, "block", large.data, ARCHIVE_BLOCK);
    pack_add(&pack, "large", large.data, large.length);
    pack_save(&pack, support_path(folder, "tar"));
    pack_load(&again, support_path(folder, "tar"));
    ck_assert_uint_eq(again.count, pack.count);
    for (size_t i = 0; i < pack.count; i++) {
        ck_assert_str_eq(again.members[i].name, pack.members[i].name);
        ck_assert_uint_eq(again.members[i].bytes.length, pack.members[i].bytes.length);
        ck_assert_int_eq(memcmp(text_string(&again.members[i].bytes), text_string(&pack.members[i].bytes),
                                pack.members[i].bytes.length),
                         0);
    }
    uint64_t size, sum = 2 * ARCHIVE_BLOCK;
    for (size_t i = 0; i < pack.count; i++)
        sum += archive_member_bytes(pack.members[i].bytes.length);
    ASSERT_OK(file_size(support_path(folder, "tar"), &size, &error), &error);
    ck_assert_uint_eq(size, sum);
    pack_done(&pack);
    pack_done(&again);
}
END_TEST

START_TEST(a_size_beyond_eight_gigabytes_keeps_its_value)
{
    static const uint64_t sizes[] = {(UINT64_C(1) << 33) - 1, UINT64_C(1) << 33, UINT64_C(1) << 42};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        text_clear(&bytes);
        ASSERT_OK(archive_put_header(pack_sink, &bytes, "weights", sizes[i], &error), &error);
        int fd;
        OWNED(TarReader, archive_close_tar) *reader = open_bytes(&fd);
        char name[ARCHIVE_NAME_SIZE];
        uint64_t found;
        bool any;
        ASSERT_OK(archive_next(reader, &any, name, &found, &error), &error);
        ck_assert(any);
        ck_assert_uint_eq(found, sizes[i]);
        SCOPED_TEXT out;
        text_init(&out, PACK_BYTES);
        ASSERT_FAILS(archive_take(reader, pack_sink, &out, &error), &error, ERROR_DATA, "archive is damaged");
        close(fd);
    }
    ck_assert_uint_eq(archive_member_bytes(0), 512);
    ck_assert_uint_eq(archive_member_bytes(512), 1024);
    ck_assert_uint_eq(archive_member_bytes(513), 1536);
}
END_TEST

START_TEST(a_name_that_does_not_fit_is_not_written)
{
    char name[ARCHIVE_NAME_SIZE + 1];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ASSERT_FAILS(archive_put_header(pack_sink, &bytes, name, 0, &error), &error, ERROR_USAGE,
                 "has 101 bytes");
    ASSERT_FAILS(archive_put_header(pack_sink, &bytes, "", 0, &error), &error, ERROR_USAGE, "has 0 bytes");
}
END_TEST

// -- members made by the library itself, each of its kinds

static const struct KindRow {
    unsigned type;
    const char *link, *hardlink, *words;
    bool holes, attribute;
} kind_rows[] = {
    {AE_IFLNK, "/etc/passwd", NULL, "is a link", false, false},
    {AE_IFDIR, NULL, NULL, "is a directory", false, false},
    {AE_IFCHR, NULL, NULL, "is a device", false, false},
    {AE_IFBLK, NULL, NULL, "is a device", false, false},
    {AE_IFIFO, NULL, NULL, "is a fifo", false, false},
    {AE_IFREG, NULL, "../../etc/passwd", "is a hard link", false, false},
    {AE_IFREG, NULL, NULL, "is a file with holes", true, false},
    {AE_IFREG, NULL, NULL, "is a file with extended attributes", false, true},
};

static void write_kind(const struct KindRow *row)
{
    struct archive *writer = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    archive_write_set_format_pax(writer);
    ck_assert_int_eq(archive_write_open_filename(writer, support_path(folder, "tar")), ARCHIVE_OK);
    archive_entry_set_pathname(entry, "model.json");
    archive_entry_set_filetype(entry, row->type);
    archive_entry_set_perm(entry, 0640);
    archive_entry_set_size(entry, row->holes ? 1 << 20 : 0);
    if (row->link)
        archive_entry_set_symlink(entry, row->link);
    if (row->hardlink)
        archive_entry_set_hardlink(entry, row->hardlink);
    if (row->holes)
        archive_entry_sparse_add_entry(entry, 1 << 19, 16);
    if (row->attribute)
        archive_entry_xattr_add_entry(entry, "user.x", "y", 1);
    ck_assert_int_eq(archive_write_header(writer, entry), ARCHIVE_OK);
    static const char zeros[1 << 20];
    if (row->holes)
        ck_assert_int_eq(archive_write_data(writer, zeros, sizeof zeros), sizeof zeros);
    archive_entry_free(entry);
    archive_write_free(writer);
}

START_TEST(only_a_plain_file_is_read)
{
    write_kind(&kind_rows[_i]);
    int fd = open(support_path(folder, "tar"), O_RDONLY | O_CLOEXEC);
    OWNED(TarReader, archive_close_tar) *reader = archive_open_tar(fd, &error);
    ASSERT_OK(reader != NULL, &error);
    char name[ARCHIVE_NAME_SIZE];
    uint64_t size;
    bool any;
    ASSERT_FAILS(archive_next(reader, &any, name, &size, &error), &error, ERROR_DATA, kind_rows[_i].words);
    close(fd);
}
END_TEST

START_TEST(what_is_no_tar_or_cannot_be_read_is_said)
{
    int fd;
    for (int i = 0; i < 2000; i++)
        text_add(&bytes, "no tar ");
    const char *path = support_path(folder, "tar");
    pack_write_bytes(path, &bytes);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT_FAILS(archive_open_tar(fd, &error) != NULL, &error, ERROR_DATA, "archive is damaged");
    close(fd);
    fd = open(folder, O_RDONLY | O_CLOEXEC);   // a directory opens but does not read
    ASSERT_FAILS(archive_open_tar(fd, &error) != NULL, &error, ERROR_IO, "could not read archive");
    close(fd);
    archive_close_tar(NULL);
}
END_TEST

static bool full(void *context, const void *data, uint64_t length, Error *failed)
{
    (void)context;
    (void)data;
    (void)length;
    return FAIL(failed, ERROR_IO, 0, "full");
}

START_TEST(a_sink_that_fails_ends_writing_and_reading)
{
    ASSERT_FAILS(archive_put_header(full, NULL, "x", 1, &error), &error, ERROR_IO, "full");
    ASSERT_FAILS(archive_put_padding(full, NULL, 1, &error), &error, ERROR_IO, "full");
    ASSERT_OK(archive_put_padding(full, NULL, 512, &error), &error);
    ASSERT_FAILS(archive_put_end(full, NULL, &error), &error, ERROR_IO, "full");
    Pack pack = {.count = 0};
    pack_add(&pack, "x", "y", 1);
    pack_render(&pack, &bytes);
    pack_done(&pack);
    int fd;
    char name[ARCHIVE_NAME_SIZE];
    uint64_t size;
    bool any;
    OWNED(TarReader, archive_close_tar) *reader = open_bytes(&fd);
    ASSERT_OK(archive_next(reader, &any, name, &size, &error), &error);
    ASSERT_FAILS(archive_take(reader, full, NULL, &error), &error, ERROR_IO, "full");
    close(fd);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("archive_tar");
    TCase *tar = tcase_create("tar");
    tcase_add_checked_fixture(tar, set_up, tear_down);
    tcase_add_test(tar, what_is_written_reads_back_with_any_size_and_name);
    tcase_add_test(tar, a_size_beyond_eight_gigabytes_keeps_its_value);
    tcase_add_test(tar, a_name_that_does_not_fit_is_not_written);
    tcase_add_loop_test(tar, only_a_plain_file_is_read, 0, (int)(sizeof kind_rows / sizeof kind_rows[0]));
    tcase_add_test(tar, what_is_no_tar_or_cannot_be_read_is_said);
    tcase_add_test(tar, a_sink_that_fails_ends_writing_and_reading);
    suite_add_tcase(s, tar);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
