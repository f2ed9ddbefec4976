/* The cart and its pole: beginnings, and one step. */
#include "tools/es/cart_pole.h"
#include "kernels/rng.h"

#define GRAVITY 9.8
#define CART 1.0
#define POLE 0.1
#define HALF_LENGTH 0.5
#define FORCE 10.0
#define SECONDS 0.02
#define MOST_PLACE 2.4
#define MOST_ANGLE (12.0 * 2.0 * 3.14159265358979323846 / 360.0)

#define KEY 0x63617274u /* "cart": shares no counter with other random numbers of the seed */
#define WIDTH 0.05

cart_pole cart_pole_begin(uint64_t seed, uint64_t episode)
{
    uint32_t word[4];
    double at[4];
    sw_rng_words(word, seed ^ (uint64_t)KEY << 32, 0, KEY, (uint32_t)episode,
                 (uint32_t)(episode >> 32));
    for (int i = 0; i < 4; i++)
        at[i] = WIDTH * (2.0 * ((double)word[i] + 0.5) * 0x1p-32 - 1.0);
    return (cart_pole){.place = at[0], .speed = at[1], .angle = at[2], .turn = at[3]};
}

/* Taylor's series: below 2^-53 of the result up to half a radian, and no step is made of a pole
 * that is further down than 12 degrees. */
static double sine(double x)
{
    double term = x, sum = x;
    for (int k = 2; k <= 14; k += 2) {
        term *= -x * x / ((double)k * (k + 1));
        sum += term;
    }
    return sum;
}

static double cosine(double x)
{
    double term = 1.0, sum = 1.0;
    for (int k = 1; k <= 13; k += 2) {
        term *= -x * x / ((double)k * (k + 1));
        sum += term;
    }
    return sum;
}

static double magnitude(double x)
{
    return x < 0.0 ? -x : x;
}

void cart_pole_step(cart_pole *c, bool right)
{
    if (c->over)
        return;
    const double s = sine(c->angle), k = cosine(c->angle), mass = CART + POLE;
    const double push =
        ((right ? FORCE : -FORCE) + POLE * HALF_LENGTH * c->turn * c->turn * s) / mass;
    const double turned =
        (GRAVITY * s - k * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE * k * k / mass));
    const double moved = push - POLE * HALF_LENGTH * turned * k / mass;
    c->place += SECONDS * c->speed;
    c->speed += SECONDS * moved;
    c->angle += SECONDS * c->turn;
    c->turn += SECONDS * turned;
    c->steps++;
    c->over = !(magnitude(c->place) <= MOST_PLACE && magnitude(c->angle) <= MOST_ANGLE) ||
              c->steps >= CART_POLE_STEPS;
}

void cart_pole_see(const cart_pole *c, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        out[CART_POLE_SEES * i] = (float)c[i].place;
        out[CART_POLE_SEES * i + 1] = (float)c[i].speed;
        out[CART_POLE_SEES * i + 2] = (float)c[i].angle;
        out[CART_POLE_SEES * i + 3] = (float)c[i].turn;
    }
}

size_t cart_pole_act(cart_pole *c, size_t n, const float *logits)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        cart_pole_step(&c[i],
                       logits[CART_POLE_ACTIONS * i + 1] > logits[CART_POLE_ACTIONS * i]);
        left += !c[i].over;
    }
    return left;
}
