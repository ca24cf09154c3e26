#pragma once
/* [Schedule] of a session file: EVENT=calendar lines, with Zone= and Misfire=
 * for all of them, wherever they stand. As config.h. */
#include "config_file.h"

struct session_spec;

struct config_schedule_line {
	char *event, *calendar;
	struct config_place at;
};

struct config_schedule {
	struct config_schedule_line *lines; /* n of them */
	size_t n;
	char *zone; /* NULL: the system's */
	struct config_place zone_at, misfire_at, persistent_at;
	uint8_t misfire; /* enum delay_misfire */
	bool persistent;
};

/* A key of the section. */
void config_schedule_set(struct config_file *f, struct config_schedule *s,
	const char *key, const char *value);
/* All have been set: read the calendars into @spec. */
void config_schedule_finish(struct config_file *f, struct config_schedule *s,
	struct session_spec *spec);
uint64_t config_schedule_digest(
	uint64_t digest, const struct session_spec *spec);
void config_schedule_deinit(struct config_schedule *s);
