// loopback_tls - keys and certificates made for one server, right ones and each kind of wrong one.
#include "loopback_internal.h"

#include <openssl/evp.h>
#include <openssl/x509v3.h>

typedef struct Identity {
    EVP_PKEY *key;
    X509 *certificate;
} Identity;

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

// names NULL: a certificate authority. issuer NULL: signs itself. Valid from ten days ago for `days`.
static Identity make_identity(const char *subject, const char *names, int days, const Identity *issuer)
{
    static long serial = 1000;
    const long day = 24 * 3600;
    Identity identity = {EVP_EC_gen("P-256"), X509_new()};
    X509 *certificate = identity.certificate;
    ck_assert(identity.key != NULL && certificate != NULL);
    const Identity *by = issuer ? issuer : &identity;
    X509_NAME *name = X509_get_subject_name(certificate);
    ck_assert(X509_set_version(certificate, 2) == 1 &&
              ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++) == 1 &&
              X509_gmtime_adj(X509_getm_notBefore(certificate), -10 * day) != NULL &&
              X509_gmtime_adj(X509_getm_notAfter(certificate), (days - 10) * day) != NULL &&
              X509_set_pubkey(certificate, identity.key) == 1 &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1,
                                         0) == 1 &&
              X509_set_issuer_name(certificate, X509_get_subject_name(by->certificate)) == 1);
    add_extension(certificate, NID_basic_constraints, names ? "CA:FALSE" : "critical,CA:TRUE");
    if (names)
        add_extension(certificate, NID_subject_alt_name, names);
    ck_assert_int_gt(X509_sign(certificate, by->key, EVP_sha256()), 0);
    return identity;
}

static void identity_done(Identity *identity)
{
    EVP_PKEY_free(identity->key);
    X509_free(identity->certificate);
}

SSL_CTX *loopback_context(LoopbackTls tls, X509 **ret_ca)
{
    static const char right[] = "DNS:localhost,IP:127.0.0.1", other[] = "DNS:elsewhere.invalid,IP:127.0.0.2";
    Identity authority = make_identity("fedgate test authority", NULL, 20, NULL);
    Identity own = make_identity("receiver", tls == LOOPBACK_TLS_OTHER_NAME ? other : right,
                                 tls == LOOPBACK_TLS_EXPIRED ? 9 : 20,
                                 tls == LOOPBACK_TLS_SELF_SIGNED ? NULL : &authority);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    ck_assert_ptr_nonnull(context);
    if (tls == LOOPBACK_TLS_1_0)   // the library refuses it below this level
        ck_assert(SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0") == 1 &&
                  SSL_CTX_set_min_proto_version(context, TLS1_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(context, TLS1_VERSION) == 1);
    ck_assert(SSL_CTX_use_certificate(context, own.certificate) == 1 &&
              SSL_CTX_use_PrivateKey(context, own.key) == 1);
    *ret_ca = authority.certificate;
    EVP_PKEY_free(authority.key);
    identity_done(&own);
    return context;
}
