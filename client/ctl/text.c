/* Text: see text.h. Pure functions, any thread. */
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Smallest code point that needs so many bytes: shorter forms are refused. */
static const uint32_t utf8_least[] = {0, 0, 0x80, 0x800, 0x10000};

static size_t
utf8_size(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

size_t
utf8_decode(const void *p, size_t size, uint32_t *code)
{
	const unsigned char *byte = p;
	size_t want = size ? utf8_size(byte[0]) : 0;
	uint32_t c;

	if (want == 0 || want > size)
		return 0;
	c = want == 1 ? byte[0] : byte[0] & (0xffU >> (want + 1));
	for (size_t i = 1; i < want; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (byte[i] & 0x3f);
	}
	if (c < utf8_least[want] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return want;
}

bool
utf8_is_valid(const void *data, size_t size)
{
	const char *p = data;
	uint32_t c;
	size_t n;

	for (size_t i = 0; i < size; i += n) {
		n = utf8_decode(p + i, size - i, &c);
		if (n == 0)
			return false;
	}
	return true;
}

/* Control characters, and those that turn the direction of writing: they make
 * a terminal show something else than is there. */
static bool
code_is_shown(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	return !(c >= 0x202a && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) &&
	       c != 0x2028 && c != 0x2029;
}

bool
utf8_is_text(const void *data, size_t size)
{
	const char *p = data;
	uint32_t c;
	size_t n;

	for (size_t i = 0; i < size; i += n) {
		n = utf8_decode(p + i, size - i, &c);
		if (n == 0)
			return false;
		if (!code_is_shown(c) && c != '\t' && c != '\n' && c != '\r')
			return false;
	}
	return true;
}

size_t
utf8_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		if (((unsigned char)*text & 0xc0) != 0x80)
			width++;
	return width;
}

static void
escape_byte(FILE *f, unsigned char byte)
{
	switch (byte) {
	case '\n':
		fputs("\\n", f);
		break;
	case '\t':
		fputs("\\t", f);
		break;
	case '\r':
		fputs("\\r", f);
		break;
	case '\\':
		fputs("\\\\", f);
		break;
	default:
		fprintf(f, "\\x%02x", byte);
	}
}

/* Length of the run of bytes at @p that may be written as they are. */
static size_t
plain_run(const unsigned char *p, size_t size, int flags)
{
	uint32_t c;
	size_t n, run = 0;

	while (run < size) {
		n = utf8_decode(p + run, size - run, &c);
		if (n == 0)
			break;
		if ((flags & ESCAPE_KEEP_LINES) && (c == '\n' || c == '\t'))
			n = 1;
		else if (!code_is_shown(c) || c == '\\')
			break;
		run += n;
	}
	return run;
}

void
escape_write(FILE *f, const void *data, size_t size, int flags)
{
	const unsigned char *p = data;
	uint32_t c;
	size_t run, bad;

	while (size > 0) {
		run = plain_run(p, size, flags);
		fwrite(p, 1, run, f);
		p += run;
		size -= run;
		if (size == 0)
			break;
		bad = utf8_decode(p, size, &c);
		bad = bad ? bad : 1;
		for (size_t i = 0; i < bad; i++)
			escape_byte(f, p[i]);
		p += bad;
		size -= bad;
	}
}

void
escape_text(FILE *f, const char *text)
{
	escape_write(f, text, strlen(text), 0);
}

void
size_format(uint64_t size, char *text, size_t max)
{
	static const char units[] = "KMGTPE";
	size_t i = 0;
	uint64_t tenths;

	if (size < 1024) {
		snprintf(text, max, "%" PRIu64 " B", size);
		return;
	}
	for (; size >= UINT64_C(1024) * 1024; size /= 1024)
		i++;
	tenths = size % 1024 * 10 / 1024;
	snprintf(text, max, "%" PRIu64 ".%" PRIu64 " %ciB", size / 1024, tenths,
		units[i]);
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *
base64_encode(const void *data, size_t size)
{
	const unsigned char *p = data;
	char *text = malloc((size + 2) / 3 * 4 + 1), *out = text;
	uint32_t v;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		v = (uint32_t)p[i] << 16;
		v |= i + 1 < size ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < size ? p[i + 2] : 0;
		*out++ = base64_digits[v >> 18];
		*out++ = base64_digits[v >> 12 & 63];
		*out++ = i + 1 < size ? base64_digits[v >> 6 & 63] : '=';
		*out++ = i + 2 < size ? base64_digits[v & 63] : '=';
	}
	*out = '\0';
	return text;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Also of the alphabet that is safe in URLs. */
static int
base64_value(char c)
{
	const char *at;

	if (c == '-')
		return 62;
	if (c == '_')
		return 63;
	at = c ? strchr(base64_digits, c) : NULL;
	return at ? (int)(at - base64_digits) : -1;
}

ptrdiff_t
base64_decode(char *text, size_t size)
{
	uint32_t v = 0;
	size_t n = 0, pad = 0, out = 0;
	int digit;

	for (size_t i = 0; i < size; i++) {
		if (is_space(text[i]))
			continue;
		if (text[i] == '=') {
			pad++;
			continue;
		}
		digit = base64_value(text[i]);
		if (digit < 0 || pad > 0)
			return -1;
		v = v << 6 | (uint32_t)digit;
		n++;
		if (n % 4 != 1)
			text[out++] = (char)(v >> (8 - n % 4 * 2) % 8);
	}
	if (n % 4 == 1 || (pad > 0 && (n + pad) % 4 != 0) || pad > 2)
		return -1;
	return (ptrdiff_t)out;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ptrdiff_t
hex_decode(char *text, size_t size)
{
	size_t n = 0;
	int digit, high = 0;

	for (size_t i = 0; i < size; i++) {
		if (is_space(text[i]))
			continue;
		digit = hex_value(text[i]);
		if (digit < 0)
			return -1;
		if (n++ % 2 == 0)
			high = digit;
		else
			text[n / 2 - 1] = (char)(high << 4 | digit);
	}
	return n % 2 ? -1 : (ptrdiff_t)(n / 2);
}
