// loopback_internal.h - the certificates of a loopback server.
#ifndef FEDGATE_TESTS_LOOPBACK_INTERNAL_H
#define FEDGATE_TESTS_LOOPBACK_INTERNAL_H

#include "loopback.h"

#include <openssl/ssl.h>

// A context for this kind of server; ret_ca is the certificate that signed it.
SSL_CTX *loopback_context(LoopbackTls tls, X509 **ret_ca);

#endif
