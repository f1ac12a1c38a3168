/** The criteria of success of document 002, section 6: while an agent dies again and again, in tokens, and in right answers. */
import { atLeast, atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Faults } from './programs/faults.ts'
import type { Quality } from './programs/quality.ts'
import type { TokenOverhead } from './programs/token-overhead.ts'
import { DEBATE, EVIDENCE, RIGHT } from './quality/noisy-model.ts'
import { debateIsRight, majorityIsRight } from './quality/theory.ts'
import { median } from './statistics.ts'

const ORDER = 'messages in order'
const DELIVERY = 'accepted messages handled, once'
const COMPLETION = 'runs completed under faults'
const RECOVERY = 'deaths that were recovered from'
const TOKENS = "tokens over one agent's, same steps"
const VOTE = "right answers of a vote over one model's"
const ARGUED = "right answers of a debate over one model's"
const FAULT_ROUNDS = 3
const MESSAGES = 2_000
const RUNS = 100
const EVERY = 100
const VOTERS = 5
/** Time of the questions: less than a program may take, so that what was answered until then is printed. */
const QUESTIONS_MS = 90_000

type Figure =
  | typeof ORDER
  | typeof DELIVERY
  | typeof COMPLETION
  | typeof RECOVERY
  | typeof TOKENS
  | typeof VOTE
  | typeof ARGUED

export const criteria: Benchmark<Figure> = {
  id: 'criteria',
  question: 'criteria of success; an agent dies of every 100th message',
  must: {
    [ORDER]: atLeast(1),
    [DELIVERY]: atLeast(0.999),
    [COMPLETION]: atLeast(0.9),
    [RECOVERY]: atLeast(0.95),
    [TOKENS]: atMost(1.2),
    [VOTE]: atLeast(1),
    [ARGUED]: atLeast(1),
  },
  goal: {
    [ORDER]: atLeast(1),
    [DELIVERY]: atLeast(1),
    [COMPLETION]: atLeast(1),
    [RECOVERY]: atLeast(1),
    [TOKENS]: atMost(1),
    [VOTE]: atLeast(1.1),
    [ARGUED]: atLeast(1.1),
  },
  async run({ questions, model }) {
    const rounds: Faults[] = []
    for (let round = 0; round < FAULT_ROUNDS; round++) {
      rounds.push(await runProgram<Faults>('faults', [MESSAGES, RUNS, EVERY]))
    }
    const tokens = await runProgram<TokenOverhead>('token-overhead')
    const quality = await runProgram<Quality>('quality', [
      questions,
      QUESTIONS_MS,
      ...(model === undefined ? [] : [model]),
    ])
    return {
      ratios: {
        [ORDER]: rounds.map(({ handled, outOfOrder }) => 1 - outOfOrder / handled),
        // Who is handled twice counts against it as who is not at all.
        [DELIVERY]: rounds.map(({ messages, handled }) => 1 - Math.abs(messages - handled) / messages),
        [COMPLETION]: rounds.map(({ runs, completed }) => completed / runs),
        [RECOVERY]: rounds.map(({ crashes, recovered }) => recovered / crashes),
        [TOKENS]: [tokens.team / tokens.alone],
        [VOTE]: [quality.vote / quality.alone],
        [ARGUED]: [quality.debate / quality.alone],
      },
      details: [
        { label: 'deaths in a round', value: median(rounds.map(({ crashes }) => crashes)), unit: 'x' },
        ...(['alone', 'vote', 'debate'] as const).flatMap((way) => figures(way, quality, model === undefined)),
      ],
      notes: [
        `${questions.toLocaleString('en')} questions, by ${model ?? `noisy models, right ${RIGHT} of the time`}`,
        ...unanswered(quality, questions),
      ],
    }
  },
}

const THEORY = {
  alone: RIGHT,
  vote: majorityIsRight(VOTERS, RIGHT),
  debate: debateIsRight(DEBATE.argumentsPerSide, EVIDENCE, RIGHT),
}

const WAYS = { alone: 'one model', vote: 'a vote of five', debate: 'a debate of five' }

/** The share that is right, beside it what theory says of noisy models, and what a question costs. */
function figures(way: keyof typeof WAYS, quality: Quality, isNoisy: boolean): Detail[] {
  const label = WAYS[way]
  return [
    { label: `${label}, right`, value: quality[way], unit: 'x' },
    ...(isNoisy ? [{ label: `${label}, right in theory`, value: THEORY[way], unit: 'x' as const }] : []),
    { label: `${label}, tokens of a question`, value: quality.tokens[way], unit: 'x' },
    ...(way === 'alone'
      ? []
      : [
          {
            label: `${label}, tokens over one model's`,
            value: quality.tokens[way] / quality.tokens.alone,
            unit: 'x' as const,
          },
        ]),
  ]
}

/** Returns a line for each way that had no time for all questions. */
function unanswered({ answered }: Quality, questions: number): string[] {
  const ways = (['alone', 'vote', 'debate'] as const).filter((way) => answered[way] < questions)
  return ways.map((way) => `the time ran out: ${WAYS[way]} has answered ${answered[way]} of them`)
}
