#pragma once
/* Pieces of completions, shared by the shells'. One thread. */
#include <stdio.h>

#include "verb.h"

/* @text within single quotes of a POSIX shell, without the outer ones. */
void write_single_quoted(FILE *f, const char *text);
/* Every option that takes a value, of any verb, each once: "--name" and "-x",
 * with @between between them. */
void write_value_options(FILE *f, const char *between);

void completion_bash(FILE *f);
void completion_zsh(FILE *f);
void completion_fish(FILE *f);
