/* What peers send is decoded on the stack of a coroutine as well as on that of
 * a thread: what nests too deep is refused before anything recurses. B115 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coro/coro.h"
#include "coro/stacks.h"
#include "eventd.pb-c.h"
#include "proto/frame.h"
#include "proto/prescan.h"

enum { LEVELS = 100000, ROOM = LEVELS * 8, DEEP = PRESCAN_DEPTH_MAX };

/* A message that holds itself, and so on, @levels deep: built from its end. */
static const uint8_t *
nest(uint8_t *room, int levels, size_t *size)
{
	uint8_t head[16], *at = room + ROOM;

	for (int i = 1; i < levels; i++) {
		size_t n = 1;

		head[0] = 1 << 3 | 2; /* field 1, with a length */
		n += varint_put(head + 1, (uint64_t)(room + ROOM - at));
		at -= n;
		memcpy(at, head, n);
	}
	*size = (size_t)(room + ROOM - at);
	return at;
}

/* Of a schema without an end. */
static ProtobufCMessageDescriptor loop;
static ProtobufCFieldDescriptor loop_field = {
	.name = "self",
	.id = 1,
	.label = PROTOBUF_C_LABEL_NONE,
	.type = PROTOBUF_C_TYPE_MESSAGE,
	.offset = sizeof(ProtobufCMessage),
	.descriptor = &loop,
};
static const ProtobufCIntRange loop_ranges[] = {{1, 0}, {0, 1}};

struct self {
	ProtobufCMessage base;
	struct self *self;
};

static void
self_init(void *message)
{
	*(struct self *)message =
		(struct self){.base = PROTOBUF_C_MESSAGE_INIT(&loop)};
}

static void
make_schema(void)
{
	loop = eventd__v1__welcome__descriptor;
	loop.n_fields = 1;
	loop.fields = &loop_field;
	loop.n_field_ranges = 1;
	loop.field_ranges = loop_ranges;
	loop.sizeof_message = sizeof(struct self);
	loop.message_init = (ProtobufCMessageInit)self_init;
}

struct decoding {
	int levels, scanned, depth; /* depth: as unpacked */
};

static void
decode(struct coro *co, void *arg)
{
	struct decoding *d = arg;
	uint8_t *room = malloc(ROOM);
	ProtobufCMessage *m = NULL;
	const uint8_t *data;
	size_t size;

	(void)co;
	data = nest(room, d->levels, &size);
	d->scanned = proto_prescan(&loop, data, size, DEEP, SIZE_MAX);
	if (!d->scanned)
		m = protobuf_c_message_unpack(&loop, NULL, size, data);
	for (struct self *s = (struct self *)m; s; s = s->self)
		d->depth++;
	if (m)
		protobuf_c_message_free_unpacked(m, NULL);
	free(room);
}

static void
test_nesting_is_bounded_before_it_is_unpacked(void **state)
{
	static const struct decoding cases[] = {
		{DEEP, 0, DEEP},
		{DEEP + 1, PRESCAN_E_DEPTH, 0},
		{LEVELS, PRESCAN_E_DEPTH, 0},
	};

	(void)state;
	make_schema();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct decoding d = {.levels = cases[i].levels};
		struct coro *co = coro_new(decode, &d);

		assert_int_equal(coro_resume(co), CORO_ENDED);
		assert_int_equal(d.scanned, cases[i].scanned);
		assert_int_equal(d.depth, cases[i].depth);
		coro_free(co);
	}
	coro_thread_deinit();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting_is_bounded_before_it_is_unpacked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
