#include "config_value.h"

#include <ctype.h>
#include <string.h>

enum { WORD_MAX = 48, MILLION = 1000000 };

/* ---- numbers ----------------------------------------------------------- */

/* Read digits at *@p and step over them; false at anything but digits. */
static int
digits_take(const char **p, uint64_t *out)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)**p))
		return VALUE_E_FORM;
	for (; isdigit((unsigned char)**p); (*p)++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, **p - '0', &value))
			return VALUE_E_RANGE;
	}
	*out = value;
	return 0;
}

int
value_count(const char *text, uint64_t *out)
{
	uint64_t value;
	int r = digits_take(&text, &value);

	if (r)
		return r;
	if (*text)
		return VALUE_E_FORM;
	*out = value;
	return 0;
}

int
value_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	uint64_t value, scale = 1;
	const char *unit;
	int r = digits_take(&text, &value);

	if (r)
		return r;
	if (*text) {
		unit = strchr(units, toupper((unsigned char)*text));
		if (!unit || text[1])
			return VALUE_E_FORM;
		scale = UINT64_C(1) << (10 * (unit - units + 1));
	}
	if (__builtin_mul_overflow(value, scale, &value))
		return VALUE_E_RANGE;
	*out = value;
	return 0;
}

int
value_mode(const char *text, uint64_t *out)
{
	size_t size = strspn(text, "01234567");
	uint64_t mode = 0;

	if (size < 3 || size > 4 || text[size])
		return VALUE_E_FORM;
	for (size_t i = 0; i < size; i++)
		mode = mode * 8 + (uint64_t)(text[i] - '0');
	if (mode > 0777)
		return VALUE_E_FORM;
	*out = mode;
	return 0;
}

/* ---- time spans -------------------------------------------------------- */

static const struct unit {
	const char *name;
	uint64_t us;
} units[] = {
	{"us", 1},
	{"usec", 1},
	{"ms", 1000},
	{"msec", 1000},
	{"", 1000000},
	{"s", 1000000},
	{"sec", 1000000},
	{"second", 1000000},
	{"seconds", 1000000},
	{"m", 60000000},
	{"min", 60000000},
	{"minute", 60000000},
	{"minutes", 60000000},
	{"h", 3600000000},
	{"hr", 3600000000},
	{"hour", 3600000000},
	{"hours", 3600000000},
	{"d", 86400000000},
	{"day", 86400000000},
	{"days", 86400000000},
	{"w", 604800000000},
	{"week", 604800000000},
	{"weeks", 604800000000},
};

static const struct unit *
unit_take(const char **p)
{
	size_t size = 0;

	while (isalpha((unsigned char)(*p)[size]))
		size++;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strlen(units[i].name) == size &&
			strncmp(units[i].name, *p, size) == 0) {
			*p += size;
			return &units[i];
		}
	}
	return NULL;
}

/* Digits behind the point, in millionths; further ones are cut. */
static int
fraction_take(const char **p, uint64_t *millionths)
{
	uint64_t scale = MILLION;

	*millionths = 0;
	if (**p != '.')
		return 0;
	if (!isdigit((unsigned char)*++*p))
		return VALUE_E_FORM;
	for (; isdigit((unsigned char)**p); (*p)++) {
		scale /= 10;
		*millionths += scale * (uint64_t)(**p - '0');
	}
	return 0;
}

static void
blanks_skip(const char **p)
{
	while (**p == ' ' || **p == '\t')
		(*p)++;
}

/* One "1.5 h" of a span, in microseconds. */
static int
part_take(const char **p, uint64_t *us)
{
	uint64_t whole, millionths, value;
	const struct unit *unit;
	int r = digits_take(p, &whole);

	if (r)
		return r;
	r = fraction_take(p, &millionths);
	if (r)
		return r;
	blanks_skip(p);
	unit = unit_take(p);
	if (!unit)
		return VALUE_E_FORM;
	if (__builtin_mul_overflow(whole, unit->us, &value))
		return VALUE_E_RANGE;
	blanks_skip(p);
	millionths = millionths * unit->us / MILLION; /* a week's fit 64 bits */
	return __builtin_add_overflow(value, millionths, us) ? VALUE_E_RANGE
							     : 0;
}

int
value_span(const char *text, uint64_t *out)
{
	uint64_t sum_us = 0, us;
	int r;

	do {
		r = part_take(&text, &us);
		if (r)
			return r;
		if (__builtin_add_overflow(sum_us, us, &sum_us))
			return VALUE_E_RANGE;
	} while (*text);
	*out = sum_us / 1000 + (sum_us % 1000 != 0);
	return 0;
}

/* ---- words ------------------------------------------------------------- */

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Letters to insert, delete or change to make @b of @a, whatever their case;
 * both of at most WORD_MAX. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], n = strlen(b), diagonal, above;

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		diagonal = row[0];
		row[0] = i + 1;
		for (size_t j = 0; j < n; j++) {
			above = row[j + 1];
			row[j + 1] = least(above + 1, row[j] + 1,
				diagonal +
					(tolower((unsigned char)a[i]) !=
						tolower((unsigned char)b[j])));
			diagonal = above;
		}
	}
	return row[n];
}

const char *
value_nearest(const char *text, const char *const *words)
{
	size_t size = strlen(text), best = size / 3 + 1, d;
	const char *nearest = NULL;

	if (size > WORD_MAX)
		return NULL;
	for (; *words; words++) {
		if (strlen(*words) > WORD_MAX)
			continue;
		d = distance(text, *words);
		if (d < best || (d == best && !nearest)) {
			best = d;
			nearest = *words;
		}
	}
	return nearest;
}

/* ---- text -------------------------------------------------------------- */

/* Bytes of the UTF-8 character at @p, 0 if it is none. */
static size_t
utf8_size(const unsigned char *p, size_t size)
{
	size_t n = p[0] < 0x80   ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n == 0 || n > size)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0; /* over-long, a surrogate, beyond Unicode */
	return n;
}

size_t
value_clean_size(const char *data, size_t size)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t at = 0, n;

	while (at < size) {
		if ((p[at] < 0x20 && p[at] != '\t') || p[at] == 0x7f)
			break;
		n = utf8_size(p + at, size - at);
		if (n == 0)
			break;
		at += n;
	}
	return at;
}
