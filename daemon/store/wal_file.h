#pragma once
/* For log.c and wal_replay.c: what they share. */
#include "store/wal.h"

enum {
	WAL_NAME_MAX = 16,
	WAL_ALIGN = 8,
	WAL_CRC_FROM = 12, /* bytes in front that the checksum is not of */
	WAL_ROW_ERASED = 1,
};

/* What is in front of a row in a group: its key follows, then its data. */
struct wal_row {
	uint32_t size;
	uint16_t key_size;
	uint8_t table, flags;
};

void wal_file_name(char *out, unsigned i);
int wal_file_open(struct wal *l, unsigned i);
