/** Results of tools that are parts: a model sees the image, wherever the tool runs, and code gets the parts. */
import t from 'tap'
import { toolParts } from '../../src/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import draw from '../fixtures/tools/draws.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { toolModule } from '../toolbox/desk.ts'
import { calls, FakeModel } from './fake-model.ts'
import { modelTeam, ThreadTeam } from './teams.ts'

const PIXEL = 'iVBORw0KGgo='
const shown = [
  { type: 'text', text: 'a dot' },
  { type: 'image', data: `data:image/png;base64,${PIXEL}`, mediaType: 'image/png' },
]
t.test('the model of an agent gets the parts of a tool as its result', async (t) => {
  const { team, model } = modelTeam(t, [calls(['draw', {}]), 'I see it.'], [{ name: 'ann', tools: [draw] }])
  t.equal((await team.execute('Draw.')).finalOutput, 'I see it.')
  t.same(model.requests[1]!.messages.at(-1), { role: 'tool', toolCallId: 'call-0', content: shown })
})

t.test('the parts of a tool in a thread, of the agent or of its own, are the same', async (t) => {
  for (const isolate of [false, true]) {
    const model = new FakeModel([calls(['draw', {}]), 'I see it.'])
    const team = new ThreadTeam({
      agents: [{ name: 'ann', tools: [{ module: toolModule('draws'), ...(isolate && { isolate }) }] }],
      orchestration: { strategy: 'sequential' },
      models: { default: model },
      threads: { warmSpares: 0 },
      logger: silent,
    })
    t.teardown(() => team.close())
    t.equal((await team.execute('Draw.')).success, true)
    t.same(model.requests[1]!.messages.at(-1)!.content, shown)
  }
})

t.test('a model that takes no images is told so, and goes on', async (t) => {
  const { team, model } = modelTeam(
    t,
    [calls(['draw', {}]), 'Then not.'],
    [{ name: 'ann', tools: [draw], accepts: ['audio'] }],
  )
  t.equal((await team.execute('Draw.')).finalOutput, 'Then not.')
  t.match(
    model.lastPrompt,
    /^Error: Tool "draw" gave agent "ann" a part of type "image", which its role does not accept/,
  )
})

t.test('over chat completions the media follow the results of all calls of the answer', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const toolCalls = ['a', 'b'].map((id) => ({ id, name: 'draw', input: '{}' }))
  await piecesOf(clientOf(server), {
    messages: [
      { role: 'user', content: 'Draw.' },
      { role: 'assistant', content: '', toolCalls },
      { role: 'tool', toolCallId: 'a', content: shown as never },
      { role: 'tool', toolCallId: 'b', content: 'nothing' },
      { role: 'user', content: 'Go on.' },
    ],
  })
  const sent = server.calls[0]!.body.messages as { role: string; content: unknown }[]
  t.same(pluck(sent, 'role'), ['user', 'assistant', 'tool', 'tool', 'user', 'user'])
  t.equal(sent[2]!.content, 'a dot')
  t.same(sent[4]!.content, [
    { type: 'text', text: 'Result of the call a:' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
  ])
})

t.test('half a part is refused where it is made', async (t) => {
  const wrong: [part: object, says: RegExp][] = [
    [{ type: 'image' }, /^toolParts: parts\[0\]\.data: bytes, a data URL/],
    [{ type: 'video', data: 'AAAA' }, /^toolParts: parts\[0\]\.type: one of text, image/],
    [{ type: 'reasoning', text: 'hm' }, /^toolParts: parts\[0\]\.type: /],
  ]
  for (const [part, says] of wrong) {
    t.throws(() => toolParts([part as never]), { code: 'TOOL_FAILED', message: says })
  }
})
