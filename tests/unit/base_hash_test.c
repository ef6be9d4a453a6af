// base_hash_test - digests against published vectors, and values that may never change.
#include "support.h"

#include <fcntl.h>
#include <fedgate/hash.h>
#include <string.h>
#include <unistd.h>

static const char empty_hex[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc_hex[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void assert_digest(const Digest *digest, const char *expected)
{
    char hex[DIGEST_HEX_SIZE];
    digest_hex(digest, hex);
    ck_assert_str_eq(hex, expected);
}

START_TEST(sha256_gives_the_published_digests)
{
    Digest digest;
    hash_bytes(NULL, 0, &digest);
    assert_digest(&digest, empty_hex);
    hash_bytes("abc", 3, &digest);
    assert_digest(&digest, abc_hex);
    Hash *hash = hash_begin();
    hash_add(hash, "a", 1);
    hash_add(hash, "", 0);
    hash_add(hash, "bc", 2);
    hash_end(hash, &digest);
    assert_digest(&digest, abc_hex);
    hash_end(NULL, &digest);
    ck_assert(digest_equal(&digest, &(Digest){{0}}));
    hash_abort(hash_begin());
    hash_abort(NULL);
}
END_TEST

// RFC 4231, cases 1, 2, 3 and 6: short key, words, bytes above ASCII, a key longer than a block.
START_TEST(hmac_gives_the_published_codes)
{
    char key[131], data[50];
    memset(key, 0x0b, 20);
    Digest digest;
    hash_hmac(key, 20, "Hi There", 8, &digest);
    assert_digest(&digest, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hash_hmac("Jefe", 4, "what do ya want for nothing?", 28, &digest);
    assert_digest(&digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    hash_hmac(key, 20, data, sizeof data, &digest);
    assert_digest(&digest, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    static const char words[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    hash_hmac(key, sizeof key, words, sizeof words - 1, &digest);
    assert_digest(&digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
END_TEST

START_TEST(added_strings_keep_their_borders)
{
    Digest one, two;
    Hash *hash = hash_begin();
    hash_add_string(hash, "ab");
    hash_add_string(hash, "c");
    hash_end(hash, &one);
    hash = hash_begin();
    hash_add_string(hash, "a");
    hash_add_string(hash, "bc");
    hash_end(hash, &two);
    ck_assert(!digest_equal(&one, &two));
}
END_TEST

START_TEST(a_file_is_hashed_through_one_descriptor_without_following_links)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "f"), *link = support_path(folder, "l");
    Error error = ERROR_INIT;
    Digest digest;
    uint64_t size = 0;
    support_write(path, "abc");
    ASSERT_OK(hash_file(path, &digest, &size, &error), &error);
    assert_digest(&digest, abc_hex);
    ck_assert_uint_eq(size, 3);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq((int)lseek(fd, 2, SEEK_SET), 2);
    ASSERT_OK(hash_fd(fd, &digest, NULL, &error), &error);   // from the beginning, wherever the offset is
    assert_digest(&digest, abc_hex);
    close(fd);
    ck_assert_int_eq(symlink("f", link), 0);
    ASSERT_FAILS(hash_file(link, &digest, NULL, &error), &error, ERROR_IO, "/l'");
    ASSERT_FAILS(hash_file(folder, &digest, NULL, &error), &error, ERROR_IO, "not a regular file");
    ASSERT_FAILS(hash_fd(-1, &digest, NULL, &error), &error, ERROR_IO, "could not read");
    support_folder_remove(folder);
}
END_TEST

START_TEST(only_64_lower_case_digits_are_a_digest)
{
    Digest digest, abc;
    hash_bytes("abc", 3, &abc);
    ck_assert(digest_parse(abc_hex, &digest));
    ck_assert(digest_equal(&digest, &abc));
    char text[66];
    memcpy(text, abc_hex, sizeof abc_hex);
    text[0] = 'B';
    ck_assert(!digest_parse(text, &digest));
    text[0] = 'g';
    ck_assert(!digest_parse(text, &digest));
    ck_assert(!digest_parse(abc_hex + 1, &digest));
    memcpy(text, abc_hex, 64);
    memcpy(text + 64, "0", 2);
    ck_assert(!digest_parse(text, &digest));
    ck_assert(!digest_parse(NULL, &digest));
}
END_TEST

// RFC 3720 appendix B.4.
START_TEST(crc32c_gives_the_published_values_however_it_is_cut)
{
    unsigned char bytes[32] = {0};
    ck_assert_uint_eq(hash_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    ck_assert_uint_eq(hash_crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(hash_crc32c(0, bytes, 32), 0x46dd794e);
    ck_assert_uint_eq(hash_crc32c(0, "123456789", 9), 0xe3069283);
    for (unsigned cut = 0; cut <= 32; cut++)
        ck_assert_uint_eq(hash_crc32c(hash_crc32c(0, bytes, cut), bytes + cut, 32 - cut), 0x46dd794e);
}
END_TEST

// Splits and versions of every home depend on these: a change here is a change of the format.
START_TEST(mixing_and_row_ids_never_change)
{
    ck_assert_uint_eq(hash_mix(1), 0x5692161d100b05e5u);
    ck_assert_uint_eq(hash_mix2(1, 2), 0x81a5c1377856b73u);
    ck_assert_uint_eq(hash_row("", 0), 0x4d20273ccb7ee2d1u);
    ck_assert_uint_eq(hash_row("39,Private,77516", 16), 0xcc5c3ecbd19f7ed2u);
    ck_assert(hash_mix2(1, 2) != hash_mix2(2, 1));
    ck_assert(hash_row("a\0", 2) != hash_row("a", 1));
    ck_assert(hash_row("\0", 1) != hash_row("", 0));
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base hash");
    TCase *hash = tcase_create("hash");
    tcase_add_test(hash, hmac_gives_the_published_codes);
    tcase_add_test(hash, sha256_gives_the_published_digests);
    tcase_add_test(hash, added_strings_keep_their_borders);
    tcase_add_test(hash, a_file_is_hashed_through_one_descriptor_without_following_links);
    tcase_add_test(hash, only_64_lower_case_digits_are_a_digest);
    tcase_add_test(hash, crc32c_gives_the_published_values_however_it_is_cut);
    tcase_add_test(hash, mixing_and_row_ids_never_change);
    suite_add_tcase(made, hash);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
