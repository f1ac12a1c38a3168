/** What tools return that is no JSON as it stands: the same comes of it wherever they run, and of a step too. */
import t from 'tap'
import rows, { rowsOf } from '../fixtures/tools/rows.ts'
import { ask, given, localTeam } from '../kit/team.ts'
import { type Call, desk, toolModule } from './desk.ts'
import { doing } from './tools.ts'

const row = { id: 7, at: '1970-01-01T00:00:00.000Z' }
const GIVEN: Record<string, unknown> = {
  date: '1970-01-01T00:00:00.000Z',
  rows: [row, row],
  amount: { total: { euro: 2.5, at: '1970-01-01T00:00:00.001Z' } },
  boxed: { n: 5, s: 'text', list: [true] },
  map: { byId: { 1: '1970-01-01T00:00:00.000Z', two: [3] } },
  pairs: [['1970-01-01T00:00:00.000Z', row]],
  set: [1],
  bytes: { type: 'Buffer', data: [104, 105] },
  invalid: { at: null },
  bare: { at: '1970-01-01T00:00:00.000Z' },
  proto: JSON.parse('{"__proto__": {"a": 1}}'),
}
const REFUSED: Record<string, string> = {
  function: 'rows[0].run is function. Return strings,',
  bigint: 'rows[0].total is bigint. Return it as a string, or as a number.',
  inside: 'run is function. Return strings,',
  promise: '[0] is a Promise. Await it.',
  error: 'why is a RangeError. Return strings,',
  nan: 'mean is NaN. ',
  hole: '[1] is undefined. ',
  symbol: 'kind is symbol. ',
  hidden: 'it is a Hidden. ',
  cycle: 'back.to is a cycle. Leave out what leads back.',
}

const module = toolModule('rows')
const PLACES = { 'the host': rows, "the agent's thread": { module }, 'a thread of its own': { module, isolate: true } }

for (const [place, tool] of Object.entries(PLACES)) {
  t.test(`a tool in ${place} gives its agent what JSON makes of what it returns`, async (t) => {
    const { call } = desk(t, [tool])
    for (const [kind, output] of Object.entries(GIVEN))
      t.same((await call('rows', { kind })).outcomes, [{ output }], kind)
  })

  t.test(`a tool in ${place} that returns what JSON cannot say fails with its name and the path`, async (t) => {
    const { call } = desk(t, [tool])
    for (const [kind, says] of Object.entries(REFUSED)) {
      const [outcome] = (await call('rows', { kind })).outcomes as [Call]
      t.equal(outcome.code, 'TOOL_FAILED', kind)
      const where = says.startsWith(' ') || says.startsWith('[') ? `output${says}` : `output.${says}`
      t.ok(outcome.message?.startsWith(`Tool "rows" gave agent "ann" what is no JSON: ${where}`), kind)
    }
    t.match((await call('rows', { kind: 'throws' })).outcomes, [{ code: 'TOOL_FAILED', message: /Error: not now$/ }])
  })
}

t.test('the output of a tool is typed as JSON makes it', async (t) => {
  const tool = doing(() => ({
    at: new Date(0),
    list: [{ on: new Date(0) }],
    any: 5 as unknown,
    map: new Map([['a', new Date(0)]]),
    set: new Set([1]),
    show() {},
  }))
  const output = { at: 'text', list: [{ on: 'text' }], any: 5, map: { a: 'text' }, set: [1] }
  const typed: (typeof tool)['~types'] = { input: {}, output }
  t.ok(typed)
})

t.test('a step gives what JSON makes of its result, in the first attempt and in a later one', async (t) => {
  const seen: unknown[] = []
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).testTeam({
    ann: async ({ content }, context) => {
      seen.push(await context.step('read', () => rowsOf(content)))
      if (context.attempt === 1) throw new Error('once more')
      return 'done'
    },
  })
  for (const [kind, value] of Object.entries(GIVEN)) {
    await ask(team, 'ann', kind)
    t.same(seen.splice(0), [value, value], kind)
  }
})

t.test('a step whose result JSON cannot say fails with the path', async (t) => {
  const team = localTeam(t, {
    ann: async ({ content }, context) => {
      const thrown: unknown = await context.step('read', () => rowsOf(content)).catch((error) => error)
      return thrown instanceof Error ? thrown.message : 'it has not failed'
    },
  })
  for (const [kind, says] of Object.entries(REFUSED)) {
    const [what] = says.split('. ')
    t.match(await ask(team, 'ann', kind), `${what}; a JSON value is needed`, kind)
  }
})
