/* JSON: see json.h. One thread per writer. */
#include "json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "when.h"

static void
write_char(FILE *f, const char *p, size_t n, uint32_t code)
{
	if (code == '"' || code == '\\')
		fprintf(f, "\\%c", (char)code);
	else if (code == '\n')
		fputs("\\n", f);
	else if (code == '\t')
		fputs("\\t", f);
	else if (code == '\r')
		fputs("\\r", f);
	else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		/* a terminal obeys these, too */
		fprintf(f, "\\u%04" PRIx32, code);
	else
		fwrite(p, 1, n, f);
}

static void
write_quoted(FILE *f, const char *text, size_t size)
{
	uint32_t code;
	size_t n;

	fputc('"', f);
	for (size_t i = 0; i < size; i += n) {
		n = utf8_decode(text + i, size - i, &code);
		if (n == 0) {
			fputs("\xef\xbf\xbd", f);
			n = 1;
			continue;
		}
		write_char(f, text + i, n, code);
	}
	fputc('"', f);
}

static void
write_key(struct json *j, const char *key)
{
	if (j->started)
		fputc(',', j->f);
	j->started = true;
	if (!key)
		return;
	write_quoted(j->f, key, strlen(key));
	fputc(':', j->f);
}

void
json_init(struct json *j, FILE *f)
{
	j->f = f;
	j->started = false;
}

static void
container_begin(struct json *j, const char *key, char bracket)
{
	write_key(j, key);
	fputc(bracket, j->f);
	j->started = false;
}

static void
container_end(struct json *j, char bracket)
{
	fputc(bracket, j->f);
	j->started = true;
}

void
json_object(struct json *j, const char *key)
{
	container_begin(j, key, '{');
}

void
json_object_end(struct json *j)
{
	container_end(j, '}');
}

void
json_array(struct json *j, const char *key)
{
	container_begin(j, key, '[');
}

void
json_array_end(struct json *j)
{
	container_end(j, ']');
}

void
json_line_end(struct json *j)
{
	fputc('\n', j->f);
	j->started = false;
}

void
json_string(struct json *j, const char *key, const char *text)
{
	json_string_n(j, key, text, strlen(text));
}

void
json_string_n(struct json *j, const char *key, const char *text, size_t size)
{
	write_key(j, key);
	write_quoted(j->f, text, size);
}

void
json_int(struct json *j, const char *key, int64_t value)
{
	write_key(j, key);
	fprintf(j->f, "%" PRId64, value);
}

void
json_uint(struct json *j, const char *key, uint64_t value)
{
	write_key(j, key);
	fprintf(j->f, "%" PRIu64, value);
}

void
json_id(struct json *j, const char *key, uint64_t id)
{
	write_key(j, key);
	fprintf(j->f, "\"%" PRIu64 "\"", id);
}

void
json_bool(struct json *j, const char *key, bool value)
{
	write_key(j, key);
	fputs(value ? "true" : "false", j->f);
}

void
json_verbatim(struct json *j, const char *key, const char *text)
{
	write_key(j, key);
	fputs(text, j->f);
}

static void
data_base64(struct json *j, const void *data, size_t size)
{
	char *text = base64_encode(data, size);

	json_string(j, "data", text ? text : "");
	json_string(j, "encoding", text ? "base64" : "none");
	free(text);
}

void
json_data(struct json *j, const void *data, size_t size)
{
	if (utf8_is_text(data, size))
		json_string_n(j, "data", data, size);
	else
		data_base64(j, data, size);
	json_uint(j, "size", size);
}

void
json_time(struct json *j, const char *key, int64_t ns)
{
	char text[WHEN_TEXT_SIZE], key_ns[64];

	when_format_utc(ns, text, sizeof(text));
	json_string(j, key, text);
	snprintf(key_ns, sizeof(key_ns), "%s_ns", key);
	json_int(j, key_ns, ns);
}
