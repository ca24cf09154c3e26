#pragma once
/* Checks of a plugin before it is trusted: whose file it is, whether its bytes
 * are a whole shared object, whether its table makes sense. Any thread. */
#include <stddef.h>
#include <sys/stat.h>

#include "eventd/plugin.h"

/* Each: NULL if all is well, else why not, which may be written to @text. */

/* Whoever can write the file can do what the daemon can. */
const char *native_check_owner(
	const struct stat *st, char *text, size_t text_size);
/* The loader trusts the program headers and faults on a truncated file. */
const char *native_check_elf(const void *data, size_t size);
/* @symbol_size: bytes that the object gives the table. */
const char *native_check_table(const struct evd_plugin *plugin,
	size_t symbol_size, char *text, size_t text_size);
