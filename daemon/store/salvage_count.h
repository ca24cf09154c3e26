#pragma once
/* What a salvage finds of mailboxes, and what is missing. One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/store.h"

struct salvage_count;
struct salvage_sum {
	uint64_t events, mailboxes, lost, damaged;
	bool counts_known;
};

struct salvage_count *count_new(void);
void count_free(struct salvage_count *c);

/* Rows as they are read; marks before records. */
void count_marks(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size);
void count_record(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size);
void count_box(struct salvage_count *c, const uint8_t *key, size_t key_size,
	const uint8_t *data, size_t size);

/* Of the latest run of which there is an event. */
uint64_t count_run(const struct salvage_count *c);
/* Each mailbox with what is left of it; those whose row is missing are called
 * salvaged.NUMBER. */
void count_boxes(struct salvage_count *c,
	void (*put)(void *arg, const char *name, size_t size,
		const struct store_box_row *row),
	void *arg);
struct salvage_sum count_sum(const struct salvage_count *c);
