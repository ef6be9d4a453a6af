// bundle.h - a release directory: written beside, sealed by a manifest, verified from disk.
//
// releases/<version>/ holds manifest.json {format 1, version, kind release|baseline, model, files [{name size
// sha256}]} and the files it names (model.safetensors, model.json, maps.json, card.json, record.json;
// baseline.json instead of the model for a baseline). Only what is reproducible is sealed: two runs of one
// version seal the same bytes. The digest of a release is the SHA-256 of manifest.json. State is in the type:
// a ReleaseCheck says separately what was verified.
#ifndef FEDGATE_BUNDLE_H
#define FEDGATE_BUNDLE_H

#include <fedgate/archive.h>
#include <fedgate/hash.h>
#include <fedgate/json.h>

typedef enum ReleaseKind { RELEASE_MODEL, RELEASE_BASELINE } ReleaseKind;
const char *release_kind_name(ReleaseKind kind);   // "release", "baseline"
bool release_find_kind(const char *name, ReleaseKind *ret_kind);
// identity's shape, or a plain name for a named baseline; safe in paths.
bool release_is_version(const char *text);

typedef struct ReleaseCheck {
    bool manifest_read;
    bool files_complete;   // set of files == set in the manifest, plain files only
    bool digests_match;
    ReleaseKind kind;
    Digest digest;   // of manifest.json
    char version[96];
    uint64_t bytes;
    size_t files;
    char problem[256];   // first thing found wrong; empty when whole
} ReleaseCheck;

// -- write: begin makes <releases>/.tmp-<run> (0700); the caller writes files into release_path(); seal
// writes the manifest, syncs files then directories, drops nothing it did not write; publish verifies from
// disk, then renames without replacing and syncs the parent.
typedef struct ReleaseDraft ReleaseDraft;
WARN_UNUSED ReleaseDraft *release_begin(const char *releases, const char *run, Error *error);
const char *release_path(const ReleaseDraft *draft);
WARN_UNUSED bool release_seal(ReleaseDraft *draft, const char *version, const char *model, ReleaseKind kind,
                              Digest *ret_digest, Error *error);
// Same version already there: with the same manifest it is done (ret_existed true), with another
// ERROR_CONFLICT naming the first file that differs.
WARN_UNUSED bool release_publish(ReleaseDraft *draft, const char *releases, bool *ret_existed, Error *error);
// To failed/<run>.
WARN_UNUSED bool release_move_failed(ReleaseDraft *draft, const char *failed, Error *error);
void release_free(ReleaseDraft *draft);   // removes what is still a draft
OWNED_RELEASE(ReleaseDraft, release_free)

// -- verify: re-hash everything; true when whole. False fills `problem` and sets ERROR_DATA (missing, extra,
// size, digest, not a plain file) or ERROR_IO.
WARN_UNUSED bool release_verify(const char *directory, ReleaseCheck *ret_check, Error *error);
WARN_UNUSED bool release_read_manifest(const char *directory, Json **ret_manifest, Digest *ret_digest,
                                       Error *error);

// -- pack: a release as one file: tar of statement.json (the caller's), manifest.json, and the files in the
// manifest's order. Not compressed: weights hardly shrink, a file without compression cannot blow up, and its
// bytes hang on no library's version. One release and statement have one form, to the byte.
enum { RELEASE_STATEMENT_MAXIMUM = 4096 };
// Hashes every file while it is given to `sink`; ERROR_DATA when the release is not whole.
WARN_UNUSED bool release_pack(const char *directory, const char *statement, size_t length, ArchiveSink sink,
                              void *context, Error *error);
// Into `directory`, made here; nothing is left of it on failure. ERROR_DATA unless the file is, byte for
// byte, what release_pack makes of the result. Its length is compared with the manifest before a file is
// written.
WARN_UNUSED bool release_unpack(int from_fd, const char *directory, Text *ret_statement,
                                ReleaseCheck *ret_check, Error *error);

#endif
