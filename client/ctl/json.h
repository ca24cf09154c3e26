#pragma once
/* JSON: a streaming writer, and a check that a text is JSON.
 * One thread per writer. A key is NULL inside an array and at the top. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	JSON_MAX_DEPTH = 64,
};

struct json {
	FILE *f;      /* borrowed */
	bool started; /* the container has a member */
};

void json_init(struct json *j, FILE *f);
void json_object(struct json *j, const char *key); /* { */
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key); /* [ */
void json_array_end(struct json *j);
/* The end of a top-level object: a line feed. */
void json_line_end(struct json *j);

/* What is not UTF-8 in @text becomes U+FFFD. */
void json_string(struct json *j, const char *key, const char *text);
void json_string_n(
	struct json *j, const char *key, const char *text, size_t size);
void json_int(struct json *j, const char *key, int64_t value);
void json_uint(struct json *j, const char *key, uint64_t value);
/* As a string: numbers of JavaScript lose digits above 2^53. */
void json_id(struct json *j, const char *key, uint64_t id);
void json_bool(struct json *j, const char *key, bool value);
/* @text is JSON already: see json_check(). */
void json_verbatim(struct json *j, const char *key, const char *text);
/* "data": the text; or, if it is not text, base64 and "encoding": "base64".
 * Also "size". */
void json_data(struct json *j, const void *data, size_t size);
/* KEY: RFC 3339 in UTC, and KEY_ns: nanoseconds since the epoch. */
void json_time(struct json *j, const char *key, int64_t ns);

/* Is @text one JSON value, nested JSON_MAX_DEPTH deep at most? Otherwise
 * *@at is where it stops being one, if @at is not NULL. */
bool json_check(const char *text, size_t *at);
