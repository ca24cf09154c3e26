#pragma once
/* Pages: memory asked of the system itself. Any thread. */
#include <stddef.h>

enum { PAGES_HUGE = 2 << 20 }; /* bytes of a huge page */

/* @size bytes, a multiple of PAGES_HUGE and at one, all 0 and not there before
 * they are touched; NULL: there are none. */
void *pages_map(size_t size);
void pages_unmap(void *at, size_t size);
/* It is to be of huge pages, if the system has some. */
void pages_are_huge(void *at, size_t size);
/* It will be written to soon: the system gives its pages at once, as each that
 * is met by a fault costs several times as much. */

void pages_expect(void *at, size_t size);
