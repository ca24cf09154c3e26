#include "config_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>

#include "base/err.h"
#include "config_value.h"

/* ---- errors ------------------------------------------------------------ */

void
config_errors_deinit(struct config_errors *errors)
{
	for (size_t i = 0; i < errors->n; i++)
		free(errors->lines[i]);
	free(errors->lines);
	*errors = (struct config_errors){0};
}

bool
config_errors_any(const struct config_errors *errors)
{
	return errors->n + errors->n_left_out > 0;
}

static void
errors_take(struct config_errors *errors, char *line)
{
	char **bigger = NULL;

	if (line && errors->n < CONFIG_ERRORS_MAX)
		bigger = reallocarray(
			errors->lines, errors->n + 1, sizeof(*bigger));
	if (!bigger) {
		free(line);
		errors->n_left_out++;
		return;
	}
	errors->lines = bigger;
	errors->lines[errors->n++] = line;
}

void
config_errors_add(struct config_errors *errors, const char *format, ...)
{
	char *line;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	va_end(args);
	errors_take(errors, line);
}

void
config_file_error(
	struct config_file *f, struct config_place at, const char *format, ...)
{
	char *what;
	va_list args;

	va_start(args, format);
	if (vasprintf(&what, format, args) < 0)
		what = NULL;
	va_end(args);
	config_errors_add(f->errors, "%s:%u:%u: %s", f->path,
		at.line ? at.line : 1, at.column ? at.column : 1,
		what ? what : "out of memory");
	free(what);
}

char *
config_errors_text(const struct config_errors *errors)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < errors->n; i++)
		fprintf(out, "%s%s", i > 0 ? "\n" : "", errors->lines[i]);
	if (errors->n_left_out > 0)
		fprintf(out, "%sand %zu more", errors->n > 0 ? "\n" : "",
			errors->n_left_out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- setting values ---------------------------------------------------- */

void
config_store(
	struct config_file *f, const struct config_key *key, uint64_t value)
{
	char *field = (char *)f->target + key->offset;
	uint32_t narrow = (uint32_t)value;

	if (key->width == sizeof(narrow))
		memcpy(field, &narrow, sizeof(narrow));
	else
		memcpy(field, &value, sizeof(value));
}

/* Store a number if it is one and within its bounds; @show tells bounds. */
static void
number_set(struct config_file *f, const struct config_key *key, int r,
	uint64_t value, const char *form,
	void (*show)(uint64_t value, char *out, size_t size))
{
	char min[32], max[32];

	if (!r && value >= key->min && value <= key->max) {
		config_store(f, key, value);
		return;
	}
	show(key->min, min, sizeof(min));
	show(key->max, max, sizeof(max));
	if (r == VALUE_E_FORM)
		config_file_error(f, f->at, "%s= needs %s, from %s to %s",
			key->name, form, min, max);
	else
		config_file_error(f, f->at,
			"%s= is out of range: it may be %s to %s", key->name,
			min, max);
}

static void
count_show(uint64_t value, char *out, size_t size)
{
	snprintf(out, size, "%llu", (unsigned long long)value);
}

static void
size_show(uint64_t value, char *out, size_t size)
{
	static const char units[] = "\0KMGT";
	size_t unit = 0;

	while (value > 0 && value % 1024 == 0 && unit < sizeof(units) - 2) {
		value /= 1024;
		unit++;
	}
	snprintf(
		out, size, "%llu%.1s", (unsigned long long)value, units + unit);
}

static void
span_show(uint64_t ms, char *out, size_t size)
{
	unsigned long long value = ms;

	if (value % 86400000 == 0 && value > 0)
		snprintf(out, size, "%llud", value / 86400000);
	else if (value % 1000 == 0)
		snprintf(out, size, "%llus", value / 1000);
	else
		snprintf(out, size, "%llums", value);
}

void
config_set_count(
	struct config_file *f, const struct config_key *key, const char *value)
{
	uint64_t n = 0;
	int r = value_count(value, &n);

	number_set(f, key, r, n, "a number", count_show);
}

void
config_set_size(
	struct config_file *f, const struct config_key *key, const char *value)
{
	uint64_t size = 0;
	int r = value_size(value, &size);

	number_set(f, key, r, size, "a size such as 512K or 64M", size_show);
}

void
config_set_span(
	struct config_file *f, const struct config_key *key, const char *value)
{
	uint64_t ms = 0;
	int r = value_span(value, &ms);

	number_set(f, key, r, ms, "a time span such as 5s or 500ms", span_show);
}

void
config_set_mode(
	struct config_file *f, const struct config_key *key, const char *value)
{
	uint64_t mode;

	if (value_mode(value, &mode))
		config_file_error(f, f->at,
			"%s= needs octal permissions such as 0660, at most "
			"0777",
			key->name);
	else
		config_store(f, key, mode);
}

/* "a, b or c" */
static void
words_join(const char *const *words, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; words[i] && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s",
			i == 0         ? ""
			: words[i + 1] ? ", "
				       : " or ",
			words[i]);
}

void
config_set_word(
	struct config_file *f, const struct config_key *key, const char *value)
{
	char all[256];

	for (size_t i = 0; key->words[i]; i++) {
		if (strcmp(key->words[i], value) == 0) {
			config_store(f, key, i);
			return;
		}
	}
	words_join(key->words, all, sizeof(all));
	config_file_error(
		f, f->at, "%s= may be %s, not '%s'", key->name, all, value);
}

void
config_set_path(
	struct config_file *f, const struct config_key *key, const char *value)
{
	char **field = (char **)((char *)f->target + key->offset);
	char *copy;

	if (value[0] != '/') {
		config_file_error(f, f->at,
			"%s= needs an absolute path, not '%s'", key->name,
			value);
		return;
	}
	copy = strdup(value);
	if (!copy) {
		config_file_error(f, f->at, "out of memory");
		return;
	}
	free(*field);
	*field = copy;
}

/* ---- finding keys ------------------------------------------------------ */

static const struct config_key *
table_find(const struct config_table *t, const char *section, const char *name)
{
	for (size_t i = 0; i < t->n_keys; i++)
		if (strcmp(t->keys[i].name, name) == 0 &&
			(!section || strcmp(t->keys[i].section, section) == 0))
			return &t->keys[i];
	return NULL;
}

/* The nearest name in @section, then in any. */
static const char *
table_nearest(
	const struct config_table *t, const char *section, const char *name)
{
	const char *words[CONFIG_KEYS_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < t->n_keys; i++)
		if (!section || strcmp(t->keys[i].section, section) == 0)
			words[n++] = t->keys[i].name;
	words[n] = NULL;
	return value_nearest(name, words);
}

static void
unknown_key(struct config_file *f, const char *section, const char *name)
{
	const struct config_table *t = f->table;
	const struct config_key *key = table_find(t, NULL, name);
	const char *near = table_nearest(t, section, name);

	if (!near)
		near = table_nearest(t, NULL, name);
	if (key)
		config_file_error(f, f->key_at,
			"%s= is in the wrong section: it belongs in [%s]", name,
			key->section);
	else if (t->other && table_find(t->other, NULL, name))
		config_file_error(f, f->key_at, "%s= belongs in %s", name,
			t->other->name);
	else if (near)
		config_file_error(f, f->key_at,
			"unknown key %s= in [%s]; did you mean %s=?", name,
			section, near);
	else
		config_file_error(f, f->key_at,
			"unknown key %s= in [%s]; the manual page of %s lists "
			"all",
			name, section, t->name);
}

static bool
section_is_known(const struct config_table *t, const char *name)
{
	for (size_t i = 0; t->sections[i]; i++)
		if (strcmp(t->sections[i], name) == 0)
			return true;
	return false;
}

static bool
section_is_open(const struct config_table *t, const char *name)
{
	for (size_t i = 0; t->open_sections && t->open_sections[i]; i++)
		if (strcmp(t->open_sections[i], name) == 0)
			return true;
	return false;
}

static bool
section_is_argued(const struct config_table *t, const char *name)
{
	for (size_t i = 0; t->argued_sections && t->argued_sections[i]; i++)
		if (strcmp(t->argued_sections[i], name) == 0)
			return true;
	return false;
}

static bool
key_may_be_set(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_place first = f->seen[key - f->table->keys];

	if (first.line && !key->repeats) {
		config_file_error(f, f->key_at,
			"%s= has been given on line %u already; keep one of "
			"them",
			key->name, first.line);
		return false;
	}
	if (!*value) {
		config_file_error(f, f->at,
			"%s= has no value; give one, or remove the line for "
			"the default",
			key->name);
		return false;
	}
	return true;
}

/* inih's handler, called for each key that line_is_for_inih() let through. */
static int
file_on_key(void *user, const char *cut, const char *name, const char *value)
{
	struct config_file *f = user;
	const char *section = f->section; /* inih's is cut */
	const struct config_key *key;

	(void)cut;

	if (!*section) {
		config_file_error(f, f->key_at,
			"%s= is outside a section; put [%s] above it", name,
			f->table->sections[0]);
		return 1;
	}
	if (!section_is_known(f->table, section))
		return 1; /* its header was told */
	if (section_is_open(f->table, section)) {
		f->table->set_any(f, section, name, value);
		return 1;
	}
	if (section_is_argued(f->table, section)) {
		f->table->set_argued(f, section, f->words, name, value);
		return 1;
	}
	key = table_find(f->table, section, name);
	if (!key) {
		unknown_key(f, section, name);
		return 1;
	}
	if (key_may_be_set(f, key, value)) {
		f->seen[key - f->table->keys] = f->at;
		key->set(f, key, value);
	}
	return 1;
}

/* ---- lines ------------------------------------------------------------- */

static struct config_place
place(const struct config_file *f, size_t offset)
{
	return (struct config_place){f->line, (unsigned)offset + 1};
}

static void
section_error(struct config_file *f, size_t offset, const char *name)
{
	const char *near = value_nearest(name, f->table->sections);
	char all[256];

	words_join(f->table->sections, all, sizeof(all));
	if (f->table->other && section_is_known(f->table->other, name))
		config_file_error(f, place(f, offset), "[%s] belongs in %s",
			name, f->table->other->name);
	else if (near)
		config_file_error(f, place(f, offset),
			"unknown section [%s]; did you mean [%s]?", name, near);
	else
		config_file_error(f, place(f, offset),
			"unknown section [%s]; there are %s", name, all);
}

/* A header is "[Name]" and nothing else. */
static bool
section_is_good(struct config_file *f, size_t offset, const char *line)
{
	size_t size = strcspn(line, "]"), end;

	if (line[size] != ']' || line[size + 1]) {
		config_file_error(f, place(f, offset),
			"a section is [Name] alone on its line");
		return false;
	}
	if (size - 1 > CONFIG_SECTION_MAX) {
		config_file_error(f, place(f, offset),
			"a section's name has at most %d bytes",
			CONFIG_SECTION_MAX);
		strcpy(f->section, "?"); /* its keys are no one's */
		return true;
	}
	snprintf(f->section, sizeof(f->section), "%.*s", (int)size - 1,
		line + 1);
	f->words = "";
	end = strcspn(f->section, " \t");
	if (f->section[end]) {
		f->words = f->section + end + 1;
		f->section[end] = '\0';
		if (!section_is_argued(f->table, f->section))
			f->section[end] = ' '; /* then it is not known */
	}
	if (!section_is_known(f->table, f->section))
		section_error(f, offset, f->section);
	return true; /* else inih would take its keys for the former's */
}

static bool
key_is_good(struct config_file *f, size_t offset, const char *line)
{
	size_t size = 0, equals;

	while (isalnum((unsigned char)line[size]) ||
		(line[size] && strchr("_.-", line[size])))
		size++;
	equals = size + strspn(line + size, " \t");
	if (size == 0 || line[equals] != '=') {
		config_file_error(f, place(f, offset + equals),
			"expected KEY=VALUE, the key of letters, digits, '_', "
			"'.' and '-'");
		return false;
	}
	equals++;
	equals += strspn(line + equals, " \t");
	f->key_at = place(f, offset);
	f->at = place(f, offset + equals);
	if (line[strlen(line) - 1] == '\\') {
		config_file_error(f, place(f, offset + strlen(line) - 1),
			"lines are not continued; keep the value on one line, "
			"or repeat the key for a list");
		return false;
	}
	return true;
}

/* Whether @line, of @size bytes and without blanks around it, is one that
 * inih takes as it was meant; tells what is wrong if not. */
static bool
line_is_for_inih(struct config_file *f, size_t offset, const char *line,
	size_t size, size_t max)
{
	size_t clean = value_clean_size(line, size);

	if (size == 0 || line[0] == '#' || line[0] == ';')
		return false;
	if (clean < size) {
		config_file_error(f, place(f, offset + clean),
			"byte 0x%02x is not text; the file must be UTF-8 "
			"without control characters",
			(unsigned char)line[clean]);
		return false;
	}
	if (size > max) {
		config_file_error(f, place(f, offset),
			"the line has %zu bytes; at most %zu are read", size,
			max);
		return false;
	}
	return true;
}

/* The next line, in place: where it begins and, without blanks around it,
 * where its text does. */
static char *
line_next(struct config_file *f, size_t *offset, size_t *size)
{
	char *start = f->text + f->next;
	char *end = memchr(start, '\n', f->size - f->next);
	size_t n = (size_t)((end ? end : f->text + f->size) - start);

	f->line++;
	f->next += n + (end ? 1 : 0);
	*offset = 0;
	while (n > 0 && strchr(" \t\r", start[n - 1]) && start[n - 1])
		n--;
	while (*offset < n && (start[*offset] == ' ' || start[*offset] == '\t'))
		++*offset;
	*size = n - *offset;
	return start + *offset;
}

/* inih's reader: gives one line a call, empty for those it need not see. */
static char *
file_on_line(char *out, int room, void *user)
{
	struct config_file *f = user;
	size_t offset, size, max = CONFIG_LINE_MAX;
	char *line;
	bool good;

	if (f->next >= f->size || room < 2)
		return NULL;
	if (max > (size_t)room - 1)
		max = (size_t)room - 1;
	line = line_next(f, &offset, &size);
	out[0] = '\0';
	if (!line_is_for_inih(f, offset, line, size, max))
		return out;
	memcpy(out, line, size);
	out[size] = '\0';
	good = line[0] == '[' ? section_is_good(f, offset, out)
			      : key_is_good(f, offset, out);
	if (!good)
		out[0] = '\0';
	return out;
}

/* ---- files ------------------------------------------------------------- */

/* Debian's inih has its options as variables: plain KEY=VALUE lines of our
 * length, no comments behind values, no continued lines. */
static void
inih_set_up(void)
{
	ini_use_stack = false;
	ini_max_line = CONFIG_LINE_MAX + 3;
	ini_initial_alloc = CONFIG_LINE_MAX + 3;
	ini_allow_inline_comments = false;
	ini_allow_multiline = false;
	ini_allow_no_value = false;
	ini_stop_on_first_error = false;
}

static int
file_parse(struct config_file *f)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int r;

	pthread_once(&once, inih_set_up);
	memset(f->seen, 0, sizeof(f->seen));
	f->section[0] = '\0';
	f->words = "";
	f->line = 0;
	f->next =
		f->size >= 3 && memcmp(f->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	r = ini_parse_stream(file_on_line, f, file_on_key, f);
	if (r == -2)
		return err_raise(-ENOMEM);
	if (r > 0)
		config_file_error(f, (struct config_place){(unsigned)r, 1},
			"neither a section nor KEY=VALUE");
	return 0;
}

int
config_file_parse(struct config_file *f, const char *text, size_t size)
{
	int r;

	f->text = malloc(size + 1);
	if (!f->text)
		return err_raise(-ENOMEM);
	memcpy(f->text, text, size);
	f->text[size] = '\0';
	f->size = size;
	r = file_parse(f);
	free(f->text);
	f->text = NULL;
	return r;
}

int
config_open(const char *path, int *fd, uint64_t *size)
{
	struct stat st;
	int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = 0;

	if (opened < 0)
		return err_raise(-errno);
	if (fstat(opened, &st) < 0)
		r = -errno;
	else if (S_ISDIR(st.st_mode))
		r = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		r = -EINVAL;
	else if (st.st_mode & S_IWOTH)
		r = -EPERM;
	if (r) {
		close(opened);
		return err_raise(r);
	}
	*fd = opened;
	*size = (uint64_t)st.st_size;
	return 0;
}

/* All of it, up to one byte over the limit. */
static int
text_read(int fd, char **out, size_t *size)
{
	size_t max = CONFIG_FILE_MAX + 1, used = 0;
	char *text = malloc(max);
	ssize_t n;

	if (!text)
		return err_raise(-ENOMEM);
	do {
		n = read(fd, text + used, max - used);
		if (n > 0)
			used += (size_t)n;
	} while ((n > 0 && used < max) || (n < 0 && errno == EINTR));
	if (n < 0) {
		n = -errno;
		free(text);
		return err_raise((int)n);
	}
	*out = text;
	*size = used;
	return 0;
}

static void
read_error(struct config_file *f, int r)
{
	static const struct config_place nowhere;

	if (r == -EPERM)
		config_file_error(f, nowhere,
			"anyone may write to this file; chmod o-w it");
	else if (r == -EINVAL)
		config_file_error(f, nowhere, "this is not a regular file");
	else
		config_file_error(
			f, nowhere, "cannot be read: %s", strerror(-r));
}

int
config_file_read(struct config_file *f)
{
	uint64_t file_size;
	int fd = -1, r = config_open(f->path, &fd, &file_size);

	if (!r) {
		r = text_read(fd, &f->text, &f->size);
		close(fd);
	}
	if (r) {
		if (r != -ENOENT)
			read_error(f, r);
		return err_pass(r);
	}
	if (f->size > CONFIG_FILE_MAX) {
		config_file_error(f, (struct config_place){0, 0},
			"the file is over its limit of %d bytes",
			CONFIG_FILE_MAX);
		r = err_raise(-EFBIG);
	} else {
		r = file_parse(f);
	}
	free(f->text);
	f->text = NULL;
	return r;
}
