/* Time spans: see when.h. Any thread. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "when.h"

struct unit {
	const char *name;
	int64_t ns;
};

/* As systemd.time(7): a month is 30.44 days, a year 365.25. */
static const struct unit units[] = {
	{"ns", 1},
	{"nsec", 1},
	{"us", 1000},
	{"usec", 1000},
	{"\xc2\xb5s", 1000},
	{"ms", NS_PER_MS},
	{"msec", NS_PER_MS},
	{"", NS_PER_S},
	{"s", NS_PER_S},
	{"sec", NS_PER_S},
	{"second", NS_PER_S},
	{"seconds", NS_PER_S},
	{"m", 60 * NS_PER_S},
	{"min", 60 * NS_PER_S},
	{"minute", 60 * NS_PER_S},
	{"minutes", 60 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"hr", 3600 * NS_PER_S},
	{"hour", 3600 * NS_PER_S},
	{"hours", 3600 * NS_PER_S},
	{"d", 86400 * NS_PER_S},
	{"day", 86400 * NS_PER_S},
	{"days", 86400 * NS_PER_S},
	{"w", 604800 * NS_PER_S},
	{"week", 604800 * NS_PER_S},
	{"weeks", 604800 * NS_PER_S},
	{"M", 2630016 * NS_PER_S},
	{"month", 2630016 * NS_PER_S},
	{"months", 2630016 * NS_PER_S},
	{"y", 31557600 * NS_PER_S},
	{"year", 31557600 * NS_PER_S},
	{"years", 31557600 * NS_PER_S},
};

static int64_t
unit_ns(const char *name, size_t size)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == size &&
			memcmp(units[i].name, name, size) == 0)
			return units[i].ns;
	return 0;
}

static const char *
skip_space(const char *p)
{
	return p + strspn(p, " \t");
}

/* Digits to *@value; returns behind them, NULL if there are none or too
 * many. */
static const char *
digits_parse(const char *p, int64_t *value)
{
	if (!isdigit((unsigned char)*p))
		return NULL;
	for (*value = 0; isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(*value, 10, value) ||
			__builtin_add_overflow(*value, *p - '0', value))
			return NULL;
	return p;
}

/* The part of a unit that the digits at @p are of it, like 0.5 of 1 h. */
static int64_t
fraction_of(const char *p, size_t n_digits, int64_t unit)
{
	int64_t ns = 0;

	for (size_t i = 0; i < n_digits; i++) {
		ns += unit / 10 * (p[i] - '0');
		unit /= 10;
	}
	return ns;
}

/* One number with its unit, like "1.5h"; returns behind it, NULL: wrong. */
static const char *
part_parse(const char *p, int64_t *ns)
{
	const char *fraction;
	size_t n_fraction = 0, n_unit;
	int64_t value = 0, unit;

	p = digits_parse(p, &value);
	if (!p)
		return NULL;
	fraction = p;
	if (*p == '.') {
		n_fraction = strspn(++fraction, "0123456789");
		if (n_fraction == 0)
			return NULL;
		p = fraction + n_fraction;
	}
	p = skip_space(p);
	n_unit = strcspn(p, " \t0123456789.");
	unit = unit_ns(p, n_unit);
	if (unit == 0 || __builtin_mul_overflow(value, unit, ns) ||
		__builtin_add_overflow(
			*ns, fraction_of(fraction, n_fraction, unit), ns))
		return NULL;
	return p + n_unit;
}

int
span_parse(const char *text, int64_t *ns)
{
	const char *p = skip_space(text);
	int64_t sum = 0, part;

	if (!*p)
		return -1;
	while (*p) {
		p = part_parse(p, &part);
		if (!p || __builtin_add_overflow(sum, part, &sum))
			return -1;
		p = skip_space(p);
	}
	*ns = sum;
	return 0;
}

static const struct unit shown[] = {
	{"y", 31557600 * NS_PER_S},
	{"d", 86400 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"min", 60 * NS_PER_S},
	{"s", NS_PER_S},
	{"ms", NS_PER_MS},
	{"us", 1000},
	{"ns", 1},
};

enum {
	N_SHOWN = sizeof(shown) / sizeof(shown[0]),
	SHOWN_SECONDS = 4, /* from here on one number with a fraction */
};

void
span_format(int64_t ns, char *text, size_t size)
{
	const char *sign = ns < 0 ? "-" : "";
	uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	uint64_t unit, next;
	size_t i = 0;

	while (i < N_SHOWN - 1 && left < (uint64_t)shown[i].ns)
		i++;
	unit = (uint64_t)shown[i].ns;
	if (left == 0)
		i = SHOWN_SECONDS;
	/* cut, not rounded: 999.97 ms is not 1000 ms */
	if (i >= SHOWN_SECONDS && left % unit * 10 / unit > 0) {
		snprintf(text, size, "%s%" PRIu64 ".%" PRIu64 "%s", sign,
			left / unit, left % unit * 10 / unit, shown[i].name);
		return;
	}
	next = 0;
	if (i < SHOWN_SECONDS)
		next = left % unit / (uint64_t)shown[i + 1].ns;
	if (next)
		snprintf(text, size, "%s%" PRIu64 "%s %" PRIu64 "%s", sign,
			left / unit, shown[i].name, next, shown[i + 1].name);
	else
		snprintf(text, size, "%s%" PRIu64 "%s", sign, left / unit,
			shown[i].name);
}
