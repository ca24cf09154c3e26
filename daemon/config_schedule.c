#include "config_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "config_session.h"
#include "kernel/delays.h"
#include "kernel/spec.h"
#include "proto/envelope.h"

enum { LINES_MAX = 256 };

static void
no_memory(struct config_file *f)
{
	config_file_error(f, f->at, "out of memory");
}

/* Keys that stand for all lines may be given once. */
static bool
is_first(struct config_file *f, struct config_place *seen, const char *key)
{
	if (seen->line) {
		config_file_error(f, f->key_at,
			"%s= has been given on line %u already; keep one of "
			"them",
			key, seen->line);
		return false;
	}
	*seen = f->at;
	return true;
}

static void
set_zone(struct config_file *f, struct config_schedule *s, const char *value)
{
	if (!is_first(f, &s->zone_at, "Zone"))
		return;
	s->zone = strdup(value);
	if (!s->zone)
		no_memory(f);
}

static void
set_misfire(struct config_file *f, struct config_schedule *s, const char *value)
{
	static const char *const words[] = {
		[DELAY_ONCE] = "once",
		[DELAY_SKIP] = "skip",
		[DELAY_ALL] = "all",
	};

	if (!is_first(f, &s->misfire_at, "Misfire"))
		return;
	for (int i = 0; i < DELAY_MISFIRES; i++)
		if (strcmp(value, words[i]) == 0) {
			s->misfire = (uint8_t)i;
			return;
		}
	config_file_error(
		f, f->at, "Misfire= is once, skip or all, not '%s'", value);
}

static void
set_persistent(
	struct config_file *f, struct config_schedule *s, const char *value)
{
	if (!is_first(f, &s->persistent_at, "Persistent"))
		return;
	s->persistent = strcmp(value, "yes") == 0;
	if (!s->persistent && strcmp(value, "no") != 0)
		config_file_error(
			f, f->at, "Persistent= is yes or no, not '%s'", value);
}

static void
add_line(struct config_file *f, struct config_schedule *s, const char *event,
	const char *calendar)
{
	struct config_schedule_line *more,
		line = {strdup(event), strdup(calendar), f->at};

	more = reallocarray(s->lines, s->n + 1, sizeof(*more));
	if (more)
		s->lines = more;
	if (!more || !line.event || !line.calendar) {
		free(line.event);
		free(line.calendar);
		no_memory(f);
		return;
	}
	s->lines[s->n++] = line;
}

void
config_schedule_set(struct config_file *f, struct config_schedule *s,
	const char *key, const char *value)
{
	if (strcmp(key, "Zone") == 0)
		set_zone(f, s, value);
	else if (strcmp(key, "Misfire") == 0)
		set_misfire(f, s, value);
	else if (strcmp(key, "Persistent") == 0)
		set_persistent(f, s, value);
	else if (!name_is_valid(key, strlen(key), ENVELOPE_EVENT_MAX))
		config_file_error(f, f->key_at,
			"'%s' is not a valid event; it has 1 to %d of A-Z a-z "
			"0-9 _ . / -",
			key, ENVELOPE_EVENT_MAX);
	else if (s->n == LINES_MAX)
		config_file_error(f, f->key_at, "[Schedule] has over %d lines",
			LINES_MAX);
	else
		add_line(f, s, key, value);
}

static void
read_line(struct config_file *f, const struct config_schedule *s,
	const struct config_schedule_line *line, struct session_spec *spec)
{
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c = NULL;
	int r = calendar_new(line->calendar, s->zone, NULL, &c, error);

	f->at = line->at;
	if (r == CALENDAR_E_ZONE && s->zone)
		config_file_error(f, s->zone_at, "%s", error);
	else if (r > 0)
		config_file_error(f, f->at,
			"'%s' is no calendar: %s; see `eventctl calendar`",
			line->calendar, error);
	else if (r || spec_add_schedule(spec, line->event, c))
		no_memory(f);
	else
		c = NULL;
	calendar_unref(c);
}

void
config_schedule_finish(struct config_file *f, struct config_schedule *s,
	struct session_spec *spec)
{
	spec->misfire = s->misfire;
	spec->persistent = s->persistent;
	if (s->persistent && !spec->durable)
		config_file_error(f, s->persistent_at,
			"Persistent=yes needs Durable=yes in [Mailbox], for "
			"the store keeps what has been missed");
	for (size_t i = 0; i < s->n; i++)
		read_line(f, s, &s->lines[i], spec);
}

uint64_t
config_schedule_digest(uint64_t digest, const struct session_spec *spec)
{
	digest = config_digest_number(digest, spec->misfire);
	digest = config_digest_number(digest, spec->persistent);
	for (size_t i = 0; i < spec->n_schedules; i++) {
		const struct spec_schedule *e = &spec->schedules[i];

		digest = config_digest_string(digest, e->event);
		digest = config_digest_string(digest, e->calendar->text);
		digest = config_digest_string(
			digest, calendar_zone(e->calendar));
	}
	return digest;
}

void
config_schedule_deinit(struct config_schedule *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->lines[i].event);
		free(s->lines[i].calendar);
	}
	free(s->lines);
	free(s->zone);
	*s = (struct config_schedule){0};
}
