/* Lines of genomes for tests: strings of vertices, as they stand in a text. */
#ifndef SW_TESTS_GRAPH_LINES_H
#define SW_TESTS_GRAPH_LINES_H

#define V(name, kind, in) "  {\"name\": \"" name "\", \"kind\": \"" kind "\", \"in\": [" in "]"
#define END "},\n"
#define LAST "}"
#define CONV(name, in, size, more)                                                             \
    V(name, "conv2d", "\"" in "\"") ", \"size\": " #size ", \"kernel\": 3" more END
#define RELU(name, in) V(name, "activation", "\"" in "\"") ", \"activation\": \"relu\"" END
/* Pool and logits of so many classes. */
#define TAIL_OF(in, classes)                                                                   \
    V("gap", "global_avg_pool", "\"" in "\"")                                                  \
    END V("out", "linear", "\"gap\"") ", \"size\": " classes LAST

#endif
