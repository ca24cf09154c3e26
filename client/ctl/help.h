#pragma once
/* Help and completions, written from the table of verbs. One thread. */
#include <stdio.h>

#include "verb.h"

struct ctl;
struct json;

void help_all(FILE *f);
void help_verb(FILE *f, const struct verb *verb);
void help_verb_json(struct json *j, const struct verb *verb);
/* As the options ask for; @verb NULL: all. */
void help_print(struct ctl *ctl, const struct verb *verb);

/* @shell as in verb_shells. Returns 0, or -1: there is none for it. */
int completion_write(FILE *f, const char *shell);
