/* outside_program.c - what another project writes: five tokens from a checkpoint, with the installed library alone. */
#include <ember.h>
#include <stdio.h>

/* Names that the library has inside; they are the program's to use. */
int model_forward(int x);
int model_forward(int x) { return x + 1; }

int main(int argc, char **argv) {
    ember_context *context = NULL;
    ember_llm *llm = NULL;
    ember_generation *generation = NULL;
    ember_generation_options options;
    ember_generated token;
    int n = 0;
    ember_generation_defaults(&options);
    options.prompt = "line";
    options.prompt_bytes = 4;
    options.n_tokens = 5;
    options.temperature = 0;
    options.ignore_eos = true;
    if (argc != 2 || ember_context_create(&context, NULL) != EMBER_OK || ember_llm_open(&llm, context, argv[1], NULL) != EMBER_OK ||
        ember_generation_create(&generation, llm, &options) != EMBER_OK)
        goto done;
    do {
        if (ember_generation_step(generation, &token) != EMBER_OK) goto done;
        printf("%u ", (unsigned)token.id);
        n = model_forward(n);
    } while (token.stop == EMBER_STOP_NONE);
    printf("version %s\n", ember_version());
done:
    if (n != 5) fprintf(stderr, "outside_program: %s\n", ember_last_error());
    ember_generation_free(generation);
    ember_llm_free(llm);
    ember_context_free(context);
    return n == 5 ? 0 : 1;
}
