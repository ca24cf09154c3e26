#pragma once
/* How sessions are shown, by list and status. One thread. */
#include <eventd/client.h>

#include "json.h"
#include "table.h"

/* One object, all of it, on a line of its own. */
void session_write_json(struct json *j, const struct evd_session *s);
/* Members of the open object. @counter: evd_session_counter() or alike. */
void counter_write_json(struct json *j, int counter, uint64_t value);
enum table_style session_style(const struct evd_session *s);
/* Its file, or the program and process that bound it. */
void session_from(const struct evd_session *s, char *text, size_t size);
