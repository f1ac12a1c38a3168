/** Causes of what agents throw: no key of the team is in them, and the log lines of agents have them too. */
import { inspect } from 'node:util'
import t from 'tap'
import type { Logger, RuntimeEvent } from '../../src/index.ts'
import { given } from '../kit/team.ts'

const KEY = 'a-key-of-the-team-0123456789'

function thrown(): Error {
  const deep = Object.assign(new Error(`${KEY} is wrong`), { code: KEY, status: 401 })
  const errors = [Object.assign(new Error(`not with Bearer ${KEY}`), { code: 'E_ONE' }), new Error('two')]
  return new Error('no', { cause: new AggregateError(errors, 'none', { cause: deep }) })
}

t.test('causes and the errors of an AggregateError are redacted in the result, in events and in the log', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const logger: Logger = { debug() {}, info() {}, warn: line, error: line }
  const team = given(t, {
    logger,
    models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
  }).testTeam({
    ann(_message, context) {
      context.log.warn({ error: thrown() }, 'it will fail')
      throw thrown()
    },
  })
  const run = team.launch('go')
  const events: RuntimeEvent[] = []
  for await (const event of run.events()) events.push(event)
  const result = await run.result
  const cause = {
    message: 'none',
    cause: { message: '[redacted] is wrong', code: '[redacted]', status: 401 },
    errors: [{ message: 'not with [redacted]', code: 'E_ONE' }, { message: 'two' }],
  }
  t.match(result.error, { cause: { message: 'no', cause } })
  t.match(result.error?.message, /E_ONE.*two/)
  t.match(lines, [{ error: { name: 'Error', message: 'no', cause } }, { error: result.error?.message }])
  t.match(events.at(-1), { type: 'run.finished', result: { error: { cause: { cause } } } })
  t.notMatch(inspect([result, events, lines], { depth: 20 }), KEY)
})
