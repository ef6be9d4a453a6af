// load_elf - the first two numbers of a module's contract, read from its file: loading it would already run
// its constructors.
//
// The file is an ELF of 64 bits whose table of dynamic symbols names the object 'fedgate_backend'; the
// segment that holds it says where in the file its bytes are. Nothing in the file is believed: each place is
// checked against the size of the file, each table has a limit, and what does not fit is refused with words.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load.h"

enum { MOST_SEGMENTS = 1024, MOST_TABLE = 64 << 20 };   // MOST_TABLE in bytes

static const char symbol_name[] = "fedgate_backend";

typedef struct Elf {
    int file;
    uint64_t size;
    const char *why;   // it is refused
    Elf64_Ehdr header;
    Elf64_Phdr *segments;
    Elf64_Shdr *sections;
    Elf64_Sym *symbols;
    char *names;
    uint64_t symbol_count, name_bytes;
} Elf;

static bool refuse(Elf *elf, const char *why)
{
    elf->why = why;
    return false;
}

static bool read_at(Elf *elf, uint64_t offset, void *to, uint64_t bytes)
{
    if (bytes > elf->size || offset > elf->size - bytes)
        return refuse(elf, "it ends before what it says it holds");
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(elf->file, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            return refuse(elf, "it cannot be read");
        done += got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

// A table of the file in memory of its own; NULL: refused.
static void *read_table(Elf *elf, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0 || bytes > MOST_TABLE || bytes > elf->size) {
        refuse(elf, "a table in it is empty or longer than can be");
        return NULL;
    }
    void *table = malloc(bytes);
    if (table && read_at(elf, offset, table, bytes))
        return table;
    if (!table)
        refuse(elf, "there is no memory to read it");
    free(table);
    return NULL;
}

static bool read_header(Elf *elf)
{
    struct stat status;
    if (fstat(elf->file, &status) != 0 || !S_ISREG(status.st_mode))
        return refuse(elf, "it is no regular file");
    elf->size = (uint64_t)status.st_size;
    if (elf->size < sizeof elf->header || !read_at(elf, 0, &elf->header, sizeof elf->header) ||
        memcmp(elf->header.e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(elf, "it is no ELF file");
    if (elf->header.e_ident[EI_CLASS] != ELFCLASS64 || elf->header.e_type != ET_DYN)
        return refuse(elf, "it is no shared library of 64 bits");
    if (elf->header.e_phentsize != sizeof(Elf64_Phdr) || elf->header.e_phnum > MOST_SEGMENTS ||
        elf->header.e_shentsize != sizeof(Elf64_Shdr) || elf->header.e_shnum == 0)
        return refuse(elf, "it lists no segments or sections");
    return true;
}

static bool read_symbols(Elf *elf)
{
    const Elf64_Shdr *symbols = NULL;
    for (size_t i = 0; i < elf->header.e_shnum && !symbols; i++)
        if (elf->sections[i].sh_type == SHT_DYNSYM)
            symbols = &elf->sections[i];
    if (!symbols || symbols->sh_entsize != sizeof(Elf64_Sym) || symbols->sh_link >= elf->header.e_shnum)
        return refuse(elf, "it lists no symbols");
    const Elf64_Shdr *names = &elf->sections[symbols->sh_link];
    elf->symbols = read_table(elf, symbols->sh_offset, symbols->sh_size);
    elf->names = elf->symbols ? read_table(elf, names->sh_offset, names->sh_size) : NULL;
    elf->symbol_count = symbols->sh_size / sizeof(Elf64_Sym);
    elf->name_bytes = names->sh_size;
    return elf->names != NULL;
}

static bool is_contract(const Elf *elf, const Elf64_Sym *symbol)
{
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT &&
           symbol->st_name < elf->name_bytes && elf->name_bytes - symbol->st_name >= sizeof symbol_name &&
           memcmp(elf->names + symbol->st_name, symbol_name, sizeof symbol_name) == 0;
}

static bool read_address(Elf *elf, uint64_t address, void *to, uint64_t bytes)
{
    for (size_t i = 0; i < elf->header.e_phnum; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && bytes <= segment->p_filesz &&
            address - segment->p_vaddr <= segment->p_filesz - bytes) {
            uint64_t inside = address - segment->p_vaddr;
            if (segment->p_offset > UINT64_MAX - inside)
                break;
            return read_at(elf, segment->p_offset + inside, to, bytes);
        }
    }
    return refuse(elf, "its 'fedgate_backend' lies in no segment");
}

static bool read_contract(Elf *elf, uint32_t ret_numbers[static 2])
{
    if (!read_header(elf))
        return false;
    elf->segments = read_table(elf, elf->header.e_phoff, elf->header.e_phnum * sizeof(Elf64_Phdr));
    elf->sections =
        elf->segments ? read_table(elf, elf->header.e_shoff, elf->header.e_shnum * sizeof(Elf64_Shdr)) : NULL;
    if (!elf->sections || !read_symbols(elf))
        return false;
    for (uint64_t i = 0; i < elf->symbol_count; i++)
        if (is_contract(elf, &elf->symbols[i]))
            return read_address(elf, elf->symbols[i].st_value, ret_numbers, 2 * sizeof *ret_numbers);
    return refuse(elf, "it has no 'fedgate_backend'");
}

bool backend_check_file(const char *name, const char *path, Error *error)
{
    Elf elf = {.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    uint32_t numbers[2];
    if (elf.file < 0)
        return FAIL(error, ERROR_CONFIG, errno, "compute back end '%s' is refused: could not open file '%s'",
                    name, path);
    bool good = read_contract(&elf, numbers);
    if (!good)
        FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: file '%s': %s", name, path, elf.why);
    free(elf.segments);
    free(elf.sections);
    free(elf.symbols);
    free(elf.names);
    close(elf.file);
    return good && backend_check_numbers(numbers[0], numbers[1], error);
}
