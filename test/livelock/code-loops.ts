/** Teams of code that are busy for ever, in teams that want such runs ended. Each gives up some time, so that a test ends. */
import type { AgentContext } from '../../src/index.ts'
import { type CodeProgram, loopEnded, loopTold, many, receives, script } from './code-program.ts'
import { tool } from './program.ts'

const LONG = 400

const again = (what: (context: AgentContext) => Promise<unknown>, times = LONG) =>
  receives(async (_message, context) => {
    for (let n = 0; n < times; n++) await what(context).catch(() => {})
    return 'gave up'
  })

const passesTo = (to: string) => {
  let left = LONG
  return receives(async ({ content }, context) => {
    if (left-- > 0) await context.send(to, content)
  })
}

const refuses = () => {
  throw new Error('no')
}

const fork = () => {
  let holder: string | undefined
  return receives(({ content, sender }) => {
    if (content === 'put back') holder = undefined
    else if (holder !== undefined && holder !== sender) return 'taken'
    else holder = sender
    return 'yours'
  })
}

const polite = (left: string, right: string) =>
  again(async (context) => {
    await context.request(left, 'take')
    await context.sleep(10)
    await context.request(right, 'take')
    await context.request(left, 'put back')
    await context.sleep(10)
  }, 100)

const ends = { supervision: { livelock: { onFound: 'end' } } } as const

const loops: Readonly<Record<string, CodeProgram>> = {
  'the same request with the same answer': script(
    { ann: again((context) => context.request('bob', 'may I?')), bob: receives(() => 'no') },
    (run) => run.request('ann', 'go'),
    loopEnded,
  ),
  'the same error of another agent': script(
    { ann: again((context) => context.request('bob', 'may I?')), bob: receives(refuses) },
    (run) => run.request('ann', 'go'),
    loopEnded,
  ),
  'polite philosophers': script(
    { ann: polite('left', 'right'), bob: polite('right', 'left'), left: fork(), right: fork() },
    (run) => run.requestAll(['ann', 'bob'], 'dine'),
    loopEnded,
  ),
  'two who write to each other for ever': script(
    { ann: passesTo('bob'), bob: passesTo('ann') },
    (run) => run.send('ann', 'hello'),
    loopEnded,
  ),
  'three who write to each other for ever': script(
    { ann: passesTo('bob'), bob: passesTo('cleo'), cleo: passesTo('ann') },
    (run) => run.send('ann', 'hello'),
    loopEnded,
  ),
  'a protocol that asks for the same in each round': script(
    { ann: receives(() => 'not good enough') },
    (run) => many(LONG, () => run.request('ann', 'judge it')),
    loopEnded,
  ),
  'the same call of a tool': {
    ...script({ ann: again((context) => context.tool('search', {})) }, (run) => run.request('ann', 'go'), loopEnded),
    options: { tools: [tool('search', () => 'nothing')] },
  },
  'the same error of a tool': {
    ...script({ ann: again((context) => context.tool('search', {})) }, (run) => run.request('ann', 'go'), loopEnded),
    options: { tools: [tool('search', refuses)] },
  },
  'two tools in turn': {
    ...script(
      {
        ann: again(async (context) => {
          await context.tool('a', {})
          await context.tool('b', {})
        }),
      },
      (run) => run.request('ann', 'go'),
      loopEnded,
    ),
    options: { tools: [tool('a', () => 'a'), tool('b', () => 'b')] },
  },
  'the same entry of the blackboard, between questions': {
    ...script(
      {
        ann: again(async (context) => {
          await context.blackboard.write('a', 1, 'fact')
          await context.request('bob', 'may I?')
        }),
        bob: receives(() => 'no'),
      },
      (run) => run.request('ann', 'go'),
      loopEnded,
    ),
    options: { enableBlackboard: true },
  },
  'two who ask each of two others in turn': script(
    {
      ann: again(async (context) => {
        await context.request('cleo', 'a?')
        await context.request('dan', 'b?')
      }),
      cleo: receives(() => 'no'),
      dan: receives(() => 'no'),
    },
    (run) => run.request('ann', 'go'),
    loopEnded,
  ),
  'a task that comes back in the same words': script(
    {
      ann: receives((_message, context) => context.handoff('bob', 'write it')),
      bob: receives((_message, context) => context.handoff('ann', 'write it')),
    },
    (run) => run.request('ann', 'write it').catch(() => {}),
    loopEnded,
  ),
}

const ended = Object.entries(loops).map(([name, program]): [string, CodeProgram] => [
  name,
  { ...program, options: { ...program.options, ...ends } },
])
/** The same teams, that have not said so: they are told. */
const onlyTold = Object.entries(loops).map(([name, program]): [string, CodeProgram] => [
  `${name}, and nobody wants it ended`,
  { ...program, expected: loopTold },
])

export const codeLoops: Readonly<Record<string, CodeProgram>> = Object.fromEntries([...ended, ...onlyTold])
