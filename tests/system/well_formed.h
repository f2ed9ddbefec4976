/* Reading pictures and pages as XML, with code of its own. */
#ifndef SW_TESTS_WELL_FORMED_H
#define SW_TESTS_WELL_FORMED_H

/* Where a text ceases to be well-formed: tags nest, attributes are quoted, and nothing stands
 * bare that would begin a tag or an entity. NULL: it is. Enough for what has neither CDATA nor
 * comments. `begins` is how the text must begin. */
#define SVG_BEGINS "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
const char *malformed(const char *text, const char *begins);
/* The bytes of a file as a text, until the test ends. */
char *text_of(const char *path);

#endif
