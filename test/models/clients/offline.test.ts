/** Clients that contact nobody fulfil the contract of clients, and so does a client with middleware around it. */
import t from 'tap'
import { type ModelMiddleware, wrapModel } from '../../../src/models.ts'
import { rehearsalModel, type Script, scriptedModel } from '../../../src/testing.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { clientOf } from '../../runtime/models/asking.ts'
import { FakeModel } from '../fake-model.ts'
import { clientContract } from './contract.ts'

clientContract(t, 'scripted', (_t, { text = '', toolCalls = [] }) => {
  const [call] = toolCalls
  const entry: Script = call
    ? { toolCall: { name: call.name!, input: Object(call.input) } }
    : { reply: [text].flat().join('') }
  return scriptedModel([entry])
})

clientContract(t, 'rehearsal', () => rehearsalModel())

clientContract(t, 'with middleware', async (t, answer) => {
  const server = await modelServer(t)
  server.always(answer)
  return wrapModel(clientOf(server), (request, next) => next(request))
})

const request = { model: 'small', messages: [], signal: new AbortController().signal }

t.test('the first middleware is outermost', async (t) => {
  const seen: string[] = []
  const named = (name: string): ModelMiddleware =>
    async function* (request, next) {
      seen.push(`${name} in`)
      yield* next(request)
      seen.push(`${name} out`)
    }
  const client = wrapModel(new FakeModel(['Yes.']), [named('a'), named('b')])
  for await (const _ of client.complete(request)) seen.push('piece')
  t.same(seen, ['a in', 'b in', 'piece', 'piece', 'b out', 'a out'])
})

t.test('a wrapped client says of itself what the client said', async (t) => {
  const complete = () => new FakeModel(['Yes.']).complete(request)
  const said = { offline: true, rehearsal: true, provider: 'here', modelId: 'tiny' }
  t.match(wrapModel({ ...said, complete }, []), said)
  const { offline } = wrapModel({ complete }, (request, next) => next(request))
  t.equal(offline, undefined)
})

t.test('what is no client or no middleware is refused', async (t) => {
  const wrap = (client: unknown, middleware: unknown) => () => Reflect.apply(wrapModel, undefined, [client, middleware])
  t.throws(wrap({}, []), { code: 'CONFIGURATION', message: /^wrapModel: client is .*a method complete/ })
  t.throws(wrap(undefined, []), { code: 'CONFIGURATION', details: { path: 'client' } })
  t.throws(wrap(new FakeModel([]), [7]), { code: 'CONFIGURATION', details: { path: 'middleware' } })
})
