#pragma once
/* One unit-style file of the configuration: read within limits, split into
 * sections and keys by inih, each key set by a table's row. What is wrong is
 * collected as lines of "file:line:column: what, and what to do".
 *
 * Any thread, one file by one thread at a time. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONFIG_FILE_MAX = 1 << 20, /* bytes of a file */
	CONFIG_LINE_MAX = 4096,    /* bytes of a line */
	CONFIG_KEYS_MAX = 64,      /* rows of a table */
	CONFIG_SECTION_MAX = 511,  /* bytes between the brackets */
	CONFIG_ERRORS_MAX = 100,   /* lines kept; more are counted */
};

struct config_errors {
	char **lines; /* n of them */
	size_t n;
	size_t n_left_out;
};

void config_errors_deinit(struct config_errors *errors);
/* All lines as one text, for the caller to free; NULL: out of memory. */
char *config_errors_text(const struct config_errors *errors);
bool config_errors_any(const struct config_errors *errors);
/* An error that no line of a file is to blame for. */
void config_errors_add(struct config_errors *errors, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

struct config_place {
	unsigned line, column; /* from 1; 0: nowhere */
};

struct config_file;
struct config_key;

/* Set what @key stands for in @f->target to @value, or say why not. */
typedef void (*config_set_fn)(
	struct config_file *f, const struct config_key *key, const char *value);

struct config_key {
	const char *section, *name;
	config_set_fn set;
	size_t offset;            /* in the target */
	size_t width;             /* bytes of the field: 4 or 8 */
	uint64_t min, max;        /* of a number */
	const char *const *words; /* of an enum, in the order of its values */
	bool repeats;             /* may be given more than once */
};

/* What a kind of file may hold. */
struct config_table {
	const char *name; /* of such files, for messages */
	const struct config_key *keys;
	size_t n_keys;
	const char *const *sections; /* NULL at the end */
	/* those that take any key, by set_any; NULL at the end, or NULL */
	const char *const *open_sections;
	void (*set_any)(struct config_file *f, const char *section,
		const char *key, const char *value);
	/* those whose name may be followed by words, "[Access ALIAS]", and
	 * which take their keys by set_argued; NULL at the end, or NULL */
	const char *const *argued_sections;
	void (*set_argued)(struct config_file *f, const char *section,
		const char *words, const char *key, const char *value);
	const struct config_table *other; /* whose keys may be meant */
};

struct config_file {
	const char *path;
	const struct config_table *table;
	void *target;
	struct config_errors *errors;
	struct config_place at; /* of the value that is being set */
	struct config_place key_at;
	struct config_place
		seen[CONFIG_KEYS_MAX];        /* values, by the table's row */
	char section[CONFIG_SECTION_MAX + 1]; /* that it is in, */
	const char *words; /* ... and what follows its name there, or "" */
	/* the line being read */
	char *text;
	size_t size, next;
	unsigned line;
};

/**
 * config_file_read() - read @f->path and set what it says
 *
 * path, table, target and errors are set by the caller. Everything wrong goes
 * to @f->errors.
 *
 * Return: 0 whatever the file holds; negative errno if it could not be read,
 * which has been told as an error unless it is -ENOENT.
 */
int config_file_read(struct config_file *f);
/* The same for @size bytes of text in memory; @f->path is a name for it. */
int config_file_parse(struct config_file *f, const char *text, size_t size);

/* Something is wrong at @at (nowhere: with the file as a whole). */
void config_file_error(struct config_file *f, struct config_place at,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Rows' functions for plain values. */
void config_set_count(
	struct config_file *f, const struct config_key *key, const char *value);
void config_set_size(
	struct config_file *f, const struct config_key *key, const char *value);
void config_set_span(
	struct config_file *f, const struct config_key *key, const char *value);
void config_set_mode(
	struct config_file *f, const struct config_key *key, const char *value);
void config_set_word(
	struct config_file *f, const struct config_key *key, const char *value);
/* An absolute path, into a char * that is freed first. */
void config_set_path(
	struct config_file *f, const struct config_key *key, const char *value);
/* Store @value in the field of @key. */
void config_store(
	struct config_file *f, const struct config_key *key, uint64_t value);

/* Open the regular file @path for reading; with its status. Refuses devices,
 * pipes and what anyone may write to. Negative errno, -EPERM for the latter. */
int config_open(const char *path, int *fd, uint64_t *size);
