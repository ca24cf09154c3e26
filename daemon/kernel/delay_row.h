#pragma once
/* A delay as it lies in the store. One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delay;
struct delay_init;
struct sched;

/* Bytes of it, and they; it is due at @due_ns of its clock. */
size_t delay_row_size(const struct delay *delay);
void delay_row_put(struct sched *s, const struct delay *delay, uint64_t due_ns,
	uint8_t *out);

/* What is read: @init's texts lie in the row; its calendar is a reference. */
struct delay_row {
	uint64_t last_ns;
	uint64_t late_ns; /* beyond what init.due_ns says */
	uint16_t n_missed;
	bool self; /* to the session whose mailbox it is */
};
/* 0, DELAY_ROW_E_DAMAGED or -ENOMEM. */
enum { DELAY_ROW_E_DAMAGED = 1 };
int delay_row_get(struct sched *s, const uint8_t *data, size_t size,
	struct delay_init *init, struct delay_row *row);
