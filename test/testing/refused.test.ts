/** A mistyped name, or a value of the wrong kind, in what a test gives: refused, where it is given. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { rehearse, scriptedModel, testAgent, testTeam, virtualClock } from '../../src/testing.ts'

const echo = defineAgent({ receive: ({ content }) => content })
const options = { agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' as const } }
/** Passes values as a user of JavaScript may. */
const untyped = (value: unknown): never => value as never

const refused = (path: string, message: RegExp) => ({ code: 'CONFIGURATION', message, details: { path } })

t.test('testTeam', async (t) => {
  for (const [kit, path, message] of [
    [{ module: { a: echo } }, 'kit.module', /did you mean "modules"\?/],
    [{ seed: '7' }, 'kit.seed', /got "7"; accepted: a finite number/],
    [{ seed: Number.NaN }, 'kit.seed', /got NaN/],
    [{ later: 3 }, 'kit.later', /accepted: an object/],
    [{ clock: {} }, 'kit.clock', /without now, advance, runToIdle/],
    [{ model: 3 }, 'kit.model', /accepted: a ModelClient/],
    [null, 'kit', /got null; accepted: an object/],
  ] as const)
    t.throws(() => testTeam(options, untyped(kit)), refused(path, message), path)
  const team = testTeam(options, { modules: { a: echo }, seed: undefined, later: { b: echo } })
  await team.close()
})

t.test('testAgent', async (t) => {
  for (const [given, path, message] of [
    [{ reply: {} }, 'reply', /Accepted: role, model, clock, tools, replies/],
    [{ tools: { search: 'found' } }, 'tools.search', /accepted: a function/],
    [{ clock: 3 }, 'clock', /the methods now, advance, runToIdle/],
    [{ model: {} }, 'model', /accepted: a ModelClient/],
    [3, 'options', /accepted: an object/],
  ] as const)
    t.throws(() => testAgent(echo, untyped(given)), refused(path, message), path)
})

t.test('scriptedModel', async (t) => {
  for (const [script, path, message] of [
    [undefined, 'script', /accepted: a list/],
    [[3], 'script[0]', /accepted: an object/],
    [[{ agnt: 'a', reply: 'x' }], 'script[0].agnt', /did you mean "agent"\?/],
    [[{ reply: 'x' }, { reply: 3 }], 'script[1].reply', /accepted: a text, or an object/],
    [[{ when: 3, reply: 'x' }], 'script[0].when', /a regular expression/],
    [[{ toolCall: { name: 'x', args: {} } }], 'script[0].toolCall.args', /Accepted: name, input/],
    [[{ fail: 'timeOut' }], 'script[0].fail', /"timeout"/],
    [[{ reply: 'x', delayMs: -1 }], 'script[0].delayMs', /milliseconds from 0/],
  ] as const)
    t.throws(() => scriptedModel(untyped(script)), refused(path, message), path)
  scriptedModel([
    { agent: 'a', when: /x/g, reply: ['y'] },
    { toolCall: { name: 'x', input: {} }, delayMs: 0 },
  ])
})

t.test('virtualClock', async (t) => {
  t.throws(() => virtualClock(untyped({ seed: 'x' })), refused('seed', /a finite number/))
  t.throws(() => virtualClock(untyped({ startsAt: 5 })), refused('startsAt', /did you mean "startAt"\?/))
  const clock = virtualClock()
  for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY, '5', undefined])
    await t.rejects(clock.advance(untyped(ms)), refused('ms', /milliseconds, 0 or more/), String(ms))
  await clock.advance(5)
  t.equal(clock.now(), 5)
})

t.test('rehearse', async (t) => {
  const plan = { query: 'q', seeds: 1, modules: { a: echo } }
  await t.rejects(rehearse(options, untyped({ ...plan, check: 3 })), refused('check', /accepted: a function/))
  await t.rejects(rehearse(options, untyped({ ...plan, record: 3 })), refused('record', /accepted: the path of a file/))
})
