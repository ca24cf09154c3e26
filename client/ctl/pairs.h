#pragma once
/* Words like NAME=VALUE and NAME:=JSON as a JSON object. One thread. */
#include <stdbool.h>
#include <stddef.h>

struct ctl;

/* NAME is a letter or "_" and then those, digits, "-" and ".". */
bool pair_is(const char *word);
/* *@data, to be freed, is the object; *@size without the NUL. 0, or the exit
 * code of an error that has been told. */
int pairs_to_json(struct ctl *ctl, const char *const *words, size_t n,
	char **data, size_t *size);
