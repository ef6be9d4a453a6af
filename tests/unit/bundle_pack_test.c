// bundle_pack_test - a packed release comes out as it went in, and every other file is refused with nothing
// left.
#include "pack_fixture.h"

#include <fedgate/bundle.h>
#include <fedgate/random.h>
#include <stdio.h>
#include <sys/stat.h>

#define VERSION "adult-0123456789abcdef"
static const char statement[] = "{\"who\":\"a test\"}\n";

static char *folder;
static Error error;
static Text packed;   // the release in its one form
static Pack pack;   // and taken apart

static const char *in(const char *name)
{
    return support_path(folder, name);
}

static void set_up(void)
{
    folder = support_folder_new();
    error = ERROR_INIT;
    Digest digest;
    bool existed;
    ck_assert_int_eq(mkdir(in("releases"), 0750), 0);
    OWNED(ReleaseDraft, release_free) *draft = release_begin(in("releases"), "run-1", &error);
    ASSERT_OK(draft != NULL, &error);
    support_write(support_path(release_path(draft), "card.json"), "");
    support_write(support_path(release_path(draft), "maps.json"), "{}");
    support_write(support_path(release_path(draft), "model.safetensors"), "weights");
    ASSERT_OK(release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error), &error);
    ASSERT_OK(release_publish(draft, in("releases"), &existed, &error), &error);
    text_init(&packed, PACK_BYTES);
    ASSERT_OK(
        release_pack(in("releases/" VERSION), statement, sizeof statement - 1, pack_sink, &packed, &error),
        &error);
    pack_write_bytes(in("packed"), &packed);
    pack_load(&pack, in("packed"));
    ck_assert_int_eq(mkdir(in("to"), 0750), 0);
}

static void tear_down(void)
{
    pack_done(&pack);
    text_done(&packed);
    support_folder_remove(folder);
}

static bool unpack(const char *file, Text *said)
{
    ReleaseCheck check;
    text_init(said, RELEASE_STATEMENT_MAXIMUM);
    int fd = open(in(file), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    bool done = release_unpack(fd, in("to/release"), said, &check, &error);
    ck_assert(!done || check.digests_match);
    close(fd);
    return done;
}

// Refused with this message, and nothing is left beside or above.
static void expect_refused(const char *what, const char *words)
{
    SCOPED_TEXT said;
    FileList left;
    Error failed = ERROR_INIT;
    bool done = unpack("hostile", &said);
    ck_assert_msg(!done, "%s passed", what);
    ck_assert_msg(error.kind == ERROR_DATA, "%s: %s", what, error.message);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s: '%s'", what, error.message);
    error_clear(&error);
    ASSERT_OK(file_list(in("to"), &left, &failed), &failed);
    ck_assert_msg(left.count == 0, "%s left '%s'", what, left.names[0]);
    file_list_done(&left);
    ASSERT_OK(file_list(folder, &left, &failed), &failed);
    ck_assert_msg(left.count == 4, "%s left something above", what);   // releases, packed, hostile, to
    file_list_done(&left);
}

START_TEST(a_packed_release_comes_out_as_it_went_in)
{
    SCOPED_TEXT said, again, first, second;
    text_init(&again, PACK_BYTES);
    ASSERT_OK(unpack("packed", &said), &error);
    ck_assert_str_eq(text_string(&said), statement);
    ASSERT_OK(release_pack(in("to/release"), statement, sizeof statement - 1, pack_sink, &again, &error),
              &error);
    ck_assert_uint_eq(again.length, packed.length);
    ck_assert_int_eq(memcmp(again.data, packed.data, packed.length), 0);
    text_init(&first, 65536);
    text_init(&second, 65536);
    ck_assert_str_eq(support_read(in("releases/" VERSION "/manifest.json"), &first),
                     support_read(in("to/release/manifest.json"), &second));
    struct stat status;
    ck_assert_int_eq(stat(in("to/release/maps.json"), &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0640);
    ck_assert_uint_eq(pack.count, 5);
    ck_assert_str_eq(pack.members[0].name, "statement.json");
    ck_assert_str_eq(pack.members[1].name, "manifest.json");
}
END_TEST

START_TEST(a_place_that_is_taken_stays_as_it_is)
{
    ck_assert_int_eq(mkdir(in("to/release"), 0750), 0);
    support_write(in("to/release/mine"), "mine");
    SCOPED_TEXT said;
    ASSERT_FAILS(unpack("packed", &said), &error, ERROR_IO, "could not make directory");
    ck_assert(file_exists(in("to/release/mine")));
}
END_TEST

START_TEST(a_release_that_is_not_whole_is_not_packed)
{
    SCOPED_TEXT out;
    text_init(&out, PACK_BYTES);
    const char *const release = "releases/" VERSION;
    ASSERT_FAILS(release_pack(in("nowhere"), "s", 1, pack_sink, &out, &error), &error, ERROR_DATA, "missing");
    support_write(in("releases/" VERSION "/maps.json"), "[]");
    ASSERT_FAILS(release_pack(in(release), "s", 1, pack_sink, &out, &error), &error, ERROR_DATA,
                 "'maps.json' differs from its digest");
    support_write(in("releases/" VERSION "/maps.json"), "{} ");
    ASSERT_FAILS(release_pack(in(release), "s", 1, pack_sink, &out, &error), &error, ERROR_DATA,
                 "has 3 bytes, not 2");
    support_write(in("releases/" VERSION "/extra"), "");
    ASSERT_FAILS(release_pack(in(release), "s", 1, pack_sink, &out, &error), &error, ERROR_DATA,
                 "'extra' is not in the manifest");
    ck_assert_int_eq(unlink(in("releases/" VERSION "/manifest.json")), 0);
    ASSERT_FAILS(release_pack(in(release), "s", 1, pack_sink, &out, &error), &error, ERROR_DATA, "manifest");
}
END_TEST

// -- other members, each in the one form

static void drop(size_t index)
{
    text_done(&pack.members[index].bytes);
    memmove(&pack.members[index], &pack.members[index + 1],
            (pack.count - index - 1) * sizeof pack.members[0]);
    pack.count--;
}
static void swap(size_t a, size_t b)
{
    PackMember held = pack.members[a];
    pack.members[a] = pack.members[b];
    pack.members[b] = held;
}
static void rename_member(size_t index, const char *name)
{
    ck_assert(text_copy(pack.members[index].name, sizeof pack.members[index].name, name));
}

static void no_statement(void)
{
    drop(0);
}
static void no_manifest(void)
{
    drop(1);
}
static void no_file(void)
{
    drop(3);
}
static void no_last_file(void)
{
    drop(4);
}
static void manifest_first(void)
{
    swap(0, 1);
}
static void files_swapped(void)
{
    swap(2, 4);
}
static void one_more(void)
{
    pack_add(&pack, "extra.json", "{}", 2);
}
static void twice(void)
{
    pack_add(&pack, "model.safetensors", "weights", 7);
}
static void twice_in_place(void)
{
    drop(3);
    pack_add(&pack, "model.safetensors", "weights", 7);
    swap(3, 4);
}
static void traversal(void)
{
    rename_member(3, "../maps.json");
}
static void absolute(void)
{
    rename_member(3, "/tmp/maps.json");
}
static void deeper(void)
{
    rename_member(3, "maps.json/x");
}
static void newline(void)
{
    rename_member(3, "maps\n.json");
}
static void big_statement(void)
{
    for (int i = 0; i < 4096; i++)
        text_add(&pack.members[0].bytes, " ");
}
static void empty_statement(void)
{
    text_clear(&pack.members[0].bytes);
}
static void big_manifest(void)
{
    for (int i = 0; i < 66000; i++)
        text_add(&pack.members[1].bytes, " ");
}
static void blank_manifest(void)
{
    text_add(&pack.members[1].bytes, " ");
}
static void bomb(void)
{
    pack_edit(&pack, 1, "\"size\": 7", "\"size\": 4398046511104");
}
static void manifest_traversal(void)
{
    pack_edit(&pack, 1, "maps.json", "../s.json");
    rename_member(3, "../s.json");
}
static void other_bytes(void)
{
    pack_edit(&pack, 4, "weights", "weightz");
}
static void other_size(void)
{
    pack_edit(&pack, 4, "weights", "weight");
}
static void far_other_size(void)
{
    for (int i = 0; i < 1000; i++)
        text_add(&pack.members[4].bytes, "weights");
}

static const struct MemberRow {
    const char *what;
    void (*spoil)(void);
    const char *words;
} member_rows[] = {
    {"no statement", no_statement, "holds member 'manifest.json' where 'statement.json'"},
    {"no manifest", no_manifest, "holds member 'card.json' where 'manifest.json'"},
    {"no file", no_file, "its manifest makes it"},
    {"no last file", no_last_file, "its manifest makes it"},
    {"manifest first", manifest_first, "holds member 'manifest.json' where 'statement.json'"},
    {"files out of order", files_swapped, "where 'card.json' is expected"},
    {"a file too many", one_more, "its manifest makes it"},
    {"a file twice", twice, "its manifest makes it"},
    {"a file twice for another", twice_in_place, "where 'maps.json' is expected"},
    {"a path upwards", traversal, "holds member '../maps.json' where 'maps.json'"},
    {"an absolute path", absolute, "where 'maps.json' is expected"},
    {"a path downwards", deeper, "where 'maps.json' is expected"},
    {"a newline", newline, "where 'maps.json' is expected"},
    {"a statement over the limit", big_statement, "'statement.json' has 4113 bytes, 1 to 4096"},
    {"an empty statement", empty_statement, "'statement.json' has 0 bytes"},
    {"a manifest over the limit", big_manifest, "'manifest.json' has"},
    {"a manifest in another form", blank_manifest, "not in canonical form"},
    {"a manifest that is a bomb", bomb, "its manifest makes it 43980465"},
    {"a manifest with a path", manifest_traversal, "'../s.json' is not allowed"},
    {"other bytes", other_bytes, "'model.safetensors' differs from its digest"},
    {"another size", other_size, "has 6 bytes, the manifest says 7"},
    {"a far larger file", far_other_size, "its manifest makes it"},
};

START_TEST(members_that_are_not_the_manifests_are_refused)
{
    member_rows[_i].spoil();
    pack_save(&pack, in("hostile"));
    expect_refused(member_rows[_i].what, member_rows[_i].words);
}
END_TEST

// -- headers and blocks that the one form does not have

static void fix_sum(size_t at)
{
    unsigned char *header = (unsigned char *)packed.data + at;
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
        sum += header[i];
    char digits[8];
    snprintf(digits, sizeof digits, "%06o", sum);
    memcpy(header + 148, digits, 7);
}

static size_t member_offset(size_t index)
{
    size_t at = 0;
    for (size_t i = 0; i < index; i++)
        at += archive_member_bytes(pack.members[i].bytes.length);
    return at;
}

static void insert(size_t at, const void *bytes, size_t length)
{
    SCOPED_TEXT tail;
    text_init(&tail, PACK_BYTES);
    text_add_bytes(&tail, packed.data + at, packed.length - at);
    packed.length = at;
    text_add_bytes(&packed, bytes, length);
    text_add_bytes(&packed, tail.data, tail.length);
}

// A member of this type with this content before member `index`.
static void insert_special(size_t index, char type, const char *content, const char *size)
{
    SCOPED_TEXT special;
    Error failed = ERROR_INIT;
    text_init(&special, PACK_BYTES);
    ASSERT_OK(archive_put_header(pack_sink, &special, "special", strlen(content), &failed), &failed);
    text_add(&special, content);
    ASSERT_OK(archive_put_padding(pack_sink, &special, strlen(content), &failed), &failed);
    size_t at = member_offset(index);
    insert(at, special.data, special.length);
    packed.data[at + 156] = type;
    if (size)
        memcpy(packed.data + at + 124, size, 11);
    fix_sum(at);
}

static void put_field(size_t index, size_t offset, const char *value, size_t length)
{
    size_t at = member_offset(index);
    memcpy(packed.data + at + offset, value, length);
    fix_sum(at);
}

static void spoil_header(int row)
{
    switch (row) {
    case 0:
        put_field(3, 100, "0104755", 7);
        break;   // set-uid
    case 1:
        put_field(3, 108, "0001750", 7);
        break;   // an owner
    case 2:
        put_field(3, 136, "00000000001", 11);
        break;   // a time
    case 3:
        put_field(3, 265, "root", 4);
        break;   // a name of an owner
    case 4:
        put_field(3, 157, "/etc/passwd", 11);
        break;   // the target of no link
    case 5:
        put_field(3, 345, "..", 2);
        break;   // a prefix
    case 6:
        put_field(3, 257, "ustar  ", 8);
        break;   // GNU's magic
    case 7:
        put_field(3, 329, "0000001", 7);
        break;   // a device number
    case 8:
        put_field(3, 124, "00000000003", 11);
        break;   // a byte more
    case 9:
        put_field(3, 124, "77777777777", 11);
        break;   // eight gigabytes
    case 10:
        put_field(3, 124, "\200\0\0\0\0\0\0\0\0\0\0\002", 12);
        break;   // the same size, said otherwise
    case 11:
        put_field(3, 124, "\377\377\377\377\377\377\377\377\377\377\377\377", 12);
        break;   // below 0
    case 12:
        packed.data[member_offset(3) + 148] = '7';
        break;   // a wrong sum
    case 13:
        packed.data[member_offset(3) + 512 + 2] = 'x';
        break;   // padding that is not empty
    case 14:
        packed.data[packed.length - 1] = 'x';
        break;   // an end that is not empty
    case 15:
        packed.data[packed.length - 1024] = 'x';
        break;
    case 16:
        packed.length -= 512;
        break;
    case 17:
        packed.length -= 1024;
        break;
    case 18:
        packed.length -= 1;
        break;
    case 19:
        text_add(&packed, "x");
        break;
    case 20:
        insert(packed.length, "trailing", 8);
        break;
    case 21:
        insert(packed.length, packed.data, 1024);
        break;
    case 22:
        insert_special(3, 'x', "18 path=../evil.x\n", NULL);
        break;
    case 23:
        insert_special(3, 'x', "10 size=2\n", NULL);
        break;
    case 24:
        insert_special(3, 'x', "19 size=4000000000\n", NULL);
        break;
    case 25:
        insert_special(3, 'x', "22 GNU.sparse.major=1\n", NULL);
        break;
    case 26:
        insert_special(3, 'x', "29 GNU.sparse.realsize=100000\n", NULL);
        break;
    case 27:
        insert_special(3, 'x', "25 linkpath=/etc/passwd.\n", NULL);
        break;
    case 28:
        insert_special(3, 'x', "6 a=b\n", "17777777777");
        break;
    case 29:
        insert_special(3, 'g', "6 a=b\n", NULL);
        break;
    case 30:
        insert_special(3, 'L', "maps.json", NULL);
        break;
    case 31:
        insert_special(3, 'K', "/etc/passwd", NULL);
        break;
    case 32:
        insert_special(3, 'V', "", NULL);
        break;
    case 33:
        insert_special(3, 'x', "not a record", NULL);
        break;
    case 34:
        insert_special(3, 'S', "", NULL);
        break;
    case 35:
        insert_special(3, '5', "", NULL);
        break;
    case 36:
        insert(member_offset(3), "\0", 1);
        break;
    case 37:
        packed.length = 0;
        break;
    case 38:
        packed.length = 300;
        break;
    case 39:
        insert_special(0, 'x', "10 size=2\n", NULL);
        break;
    case 40:
        insert_special(1, '2', "", NULL);
        break;
    }
}

START_TEST(nothing_but_the_one_form_is_taken)
{
    spoil_header(_i);
    pack_write_bytes(in("hostile"), &packed);
    char what[32];
    snprintf(what, sizeof what, "row %d", _i);
    expect_refused(what, "");
}
END_TEST

START_TEST(every_type_but_a_plain_file_is_refused)
{
    static const char types[] = "\0"
                                "1234567SxgLKVMDNA";
    put_field(3, 156, &types[_i], 1);
    pack_write_bytes(in("hostile"), &packed);
    expect_refused("type", "");
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    size_t whole = packed.length;
    for (size_t length = 0; length < whole; length += 256) {
        packed.length = length;
        pack_write_bytes(in("hostile"), &packed);
        expect_refused("a cut", "");
    }
}
END_TEST

START_TEST(a_byte_changed_anywhere_is_refused)
{
    for (uint64_t i = 0; i < 240; i++) {
        // All of the first file's header, then places all over.
        size_t at = i < 160 ? member_offset(3) + i : random_bits(1, i) % packed.length;
        if (i >= 160 && at < member_offset(2))
            continue;   // statement and manifest: other ones are another release, which their reader sees
        packed.data[at] ^= 0x10;
        pack_write_bytes(in("hostile"), &packed);
        packed.data[at] ^= 0x10;
        char what[32];
        snprintf(what, sizeof what, "byte %zu", at);
        expect_refused(what, "");
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bundle_pack");
    TCase *life = tcase_create("pack");
    tcase_add_checked_fixture(life, set_up, tear_down);
    tcase_add_test(life, a_packed_release_comes_out_as_it_went_in);
    tcase_add_test(life, a_place_that_is_taken_stays_as_it_is);
    tcase_add_test(life, a_release_that_is_not_whole_is_not_packed);
    tcase_add_loop_test(life, members_that_are_not_the_manifests_are_refused, 0,
                        (int)(sizeof member_rows / sizeof member_rows[0]));
    tcase_add_loop_test(life, nothing_but_the_one_form_is_taken, 0, 41);
    tcase_add_loop_test(life, every_type_but_a_plain_file_is_refused, 0, 18);
    tcase_add_test(life, a_file_cut_anywhere_is_refused);
    tcase_add_test(life, a_byte_changed_anywhere_is_refused);
    suite_add_tcase(s, life);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
