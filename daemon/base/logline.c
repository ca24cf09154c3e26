/* Log lines: cleaning, splitting and naming them. Any thread. */
#include "base/logline.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- cleaning ---------------------------------------------------------- */

/* Read the UTF-8 character at @p (NUL-terminated): its bytes, or 0. */
static size_t
utf8_read(const unsigned char *p, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t size = *p < 0x80             ? 1
		      : (*p & 0xe0) == 0xc0 ? 2
		      : (*p & 0xf0) == 0xe0 ? 3
		      : (*p & 0xf8) == 0xf0 ? 4
					    : 0;

	if (size < 2) {
		*code = *p;
		return size;
	}
	*code = *p & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (p[i] & 0x3f);
	}
	if (*code < least[size] || *code > 0x10ffff || *code >> 11 == 0x1b)
		return 0;
	return size;
}

static bool
is_harmless(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		return false;
	if (code >= 0x200e && code <= 0x200f)
		return false;
	return (code < 0x2028 || code > 0x202e) &&
	       (code < 0x2066 || code > 0x2069);
}

void
logline_clean(char *line)
{
	unsigned char *p = (unsigned char *)line;

	while (*p) {
		uint32_t code;
		size_t size = utf8_read(p, &code);

		if (size && is_harmless(code)) {
			p += size;
			continue;
		}
		if (size <= 1) {
			*p = *p == '\n' || *p == '\t' ? ' ' : '?';
			p++;
			continue;
		}
		memset(p, '?', size);
		p += size;
	}
}

/* ---- splitting --------------------------------------------------------- */

static bool
is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next `key=` at a word's beginning in @format: its key, or NULL. */
static const char *
next_key(const char *format, size_t *size)
{
	for (const char *p = format; *p;) {
		size_t n = 0;

		while (is_key_char(p[n]))
			n++;
		if (n > 0 && p[n] == '=') {
			*size = n;
			return p;
		}
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return NULL;
}

/* Where ` key=` (or `key=` at the beginning) stands in @text; the first place
 * at or after @from, or NULL. */
static const char *
find_key(const char *text, const char *from, const char *key, size_t size)
{
	for (const char *p = from; (p = strchr(p, '=')); p++) {
		const char *at = p - size;

		if ((size_t)(p - from) < size || memcmp(at, key, size) != 0)
			continue;
		if (at == text || at[-1] == ' ')
			return at;
	}
	return NULL;
}

/* Where to look for what follows @value: behind its closing quote, if it is
 * quoted, so that nothing inside is taken for a key. */
static const char *
quoted_end(const char *value)
{
	const char *p = value;

	if (*p++ != '"')
		return value;
	for (; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p : value;
}

static void
strip_quotes(struct logline_field *f)
{
	if (f->value_size >= 2 && f->value[0] == '"' &&
		f->value[f->value_size - 1] == '"') {
		f->value++;
		f->value_size -= 2;
	}
}

/* What separates the value before @next (or the end) from it. */
static const char *
value_end(const char *line, const char *next)
{
	return next ? next - 1 : line + strlen(line);
}

size_t
logline_split(const char *format, const char *line,
	struct logline_field *fields, size_t max)
{
	size_t n = 0, size, next_size = 0;
	const char *key = next_key(format, &size);
	const char *at = key ? find_key(line, line, key, size) : NULL;

	while (at && n < max) {
		struct logline_field *f = &fields[n++];
		const char *next = next_key(key + size, &next_size);
		const char *next_at = NULL;

		f->key = key;
		f->key_size = size;
		f->value = at + size + 1;
		if (next)
			next_at = find_key(
				line, quoted_end(f->value), next, next_size);
		f->value_size = (size_t)(value_end(line, next_at) - f->value);
		strip_quotes(f);
		key = next;
		size = next_size;
		at = next_at;
	}
	return n;
}

/* ---- naming ------------------------------------------------------------ */

/* FNV-1a, and a finish that spreads the last bytes over all bits. */
static uint64_t
hash_text(const char *text, uint64_t hash)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
	hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 33;
}

void
logline_message_id(const char *event, char id[LOGLINE_ID_SIZE])
{
	uint64_t high = hash_text(event, UINT64_C(0xcbf29ce484222325));
	uint64_t low = hash_text(event, UINT64_C(0x6576656e74642e31));

	/* dressed as a random UUID, which is what the journal's tools expect */
	high = (high & ~UINT64_C(0xf000)) | 0x4000;
	low = (low & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
	snprintf(id, LOGLINE_ID_SIZE, "%016llx%016llx",
		(unsigned long long)high, (unsigned long long)low);
}
