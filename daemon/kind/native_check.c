#include "kind/native_check.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/envelope.h"

enum {
	FILE_MAX = 256 << 20,
	HANDLERS_MAX = 65534,
	WAITING_MAX = 64,
	/* The last member that ABI 1 has. */
	TABLE_MIN = offsetof(struct evd_plugin, stop) + sizeof(void *),
};

const char *
native_check_owner(const struct stat *st, char *text, size_t text_size)
{
	if (!S_ISREG(st->st_mode))
		return "not a regular file";
	if (st->st_uid != 0 && st->st_uid != geteuid())
		snprintf(text, text_size,
			"owned by uid %u; its owner must be root or uid %u, "
			"whom eventd runs as",
			(unsigned)st->st_uid, (unsigned)geteuid());
	else if (st->st_mode & (S_IWGRP | S_IWOTH))
		snprintf(text, text_size,
			"mode %04o lets others write to it; chmod go-w",
			(unsigned)st->st_mode & 07777);
	else if (st->st_size > FILE_MAX)
		snprintf(text, text_size, "larger than %d MiB", FILE_MAX >> 20);
	else
		return NULL;
	return text;
}

static bool
is_elf(const ElfW(Ehdr) * head, size_t size)
{
	return size >= sizeof(*head) &&
	       memcmp(head->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Every segment that is mapped lies within the file. */
static bool
segments_fit(const unsigned char *data, size_t size)
{
	const ElfW(Ehdr) *head = (const void *)data;
	uint64_t end =
		head->e_phoff + (uint64_t)head->e_phnum * sizeof(ElfW(Phdr));

	if (head->e_phentsize != sizeof(ElfW(Phdr)) || head->e_phoff > size ||
		end > size)
		return false;
	for (size_t i = 0; i < head->e_phnum; i++) {
		ElfW(Phdr) segment;

		memcpy(&segment, data + head->e_phoff + i * sizeof(segment),
			sizeof(segment));
		if (segment.p_type != PT_LOAD)
			continue;
		if (segment.p_offset > size ||
			segment.p_filesz > size - segment.p_offset)
			return false;
	}
	return true;
}

const char *
native_check_elf(const void *data, size_t size)
{
	const ElfW(Ehdr) *head = data;

	if (!is_elf(head, size))
		return "not a shared object (no ELF file)";
	if (head->e_ident[EI_CLASS] !=
		(sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return "a shared object of another word size";
	if (head->e_type != ET_DYN)
		return "not a shared object (an ELF file of another type)";
	if (!segments_fit(data, size))
		return "truncated: its segments reach beyond its end";
	return NULL;
}

static const char *
check_handlers(const struct evd_plugin *p, char *text, size_t text_size)
{
	if (p->n_handlers > HANDLERS_MAX) {
		snprintf(text, text_size, "%zu handlers, at most %d",
			p->n_handlers, HANDLERS_MAX);
		return text;
	}
	if (p->n_handlers && !p->handlers)
		return "handlers is NULL, n_handlers is not 0";
	for (size_t i = 0; i < p->n_handlers; i++) {
		const struct evd_handler *h = &p->handlers[i];

		if (h->event && h->fn &&
			name_is_valid(
				h->event, strlen(h->event), ENVELOPE_EVENT_MAX))
			continue;
		snprintf(text, text_size,
			"handler %zu has no function or no valid event name",
			i);
		return text;
	}
	return NULL;
}

/* What tables of later versions have. */
static bool
waiting_is_sane(const struct evd_plugin *p, size_t symbol_size)
{
	size_t size = p->size < symbol_size ? p->size : symbol_size;

	if (size < offsetof(struct evd_plugin, n_waiting) + sizeof(size_t))
		return true;
	return !(p->flags & ~(unsigned)EVD_PLUGIN_WAITS) &&
	       (!p->waiting || p->n_waiting <= WAITING_MAX);
}

const char *
native_check_table(const struct evd_plugin *p, size_t symbol_size, char *text,
	size_t text_size)
{
	if (symbol_size < 2 * sizeof(uint32_t))
		return EVD_PLUGIN_SYMBOL " is too small to be a plugin's table";
	if (p->abi != EVD_PLUGIN_ABI) {
		snprintf(text, text_size, "ABI %u, this eventd speaks %d",
			(unsigned)p->abi, EVD_PLUGIN_ABI);
		return text;
	}
	if (p->size < TABLE_MIN || symbol_size < TABLE_MIN) {
		snprintf(text, text_size,
			EVD_PLUGIN_SYMBOL " has %zu bytes, ABI %d needs %d",
			p->size < symbol_size ? (size_t)p->size : symbol_size,
			EVD_PLUGIN_ABI, TABLE_MIN);
		return text;
	}
	if (!waiting_is_sane(p, symbol_size))
		return "flags that this eventd does not know, or over 64 "
		       "handlers that may wait";
	return check_handlers(p, text, text_size);
}
