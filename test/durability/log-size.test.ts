/** How large the log of a run is: what was said in it once, and a little for each record. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import * as z from 'zod'
import { createTeam, defineTool, type OrchestrationConfig } from '../../src/index.ts'
import { entrySpans } from '../../src/runtime/log/entry-codec.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { Dice } from '../dice.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { bytesIn, folderOf } from './log-folders.ts'

type Config = OrchestrationConfig<'ann' | 'bob' | 'cy'>

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** Counts what is said: each text once. Makes new texts of so many characters, with lines and quotes. */
class Speech {
  bytes = 0
  readonly #known = new Set<string>()
  readonly #dice = new Dice(3)

  hear(text: string): string {
    if (!this.#known.has(text)) this.bytes += Buffer.byteLength(text)
    this.#known.add(text)
    return text
  }

  make(characters: number): string {
    const words: string[] = []
    for (let left = characters; left > 0; left -= words.at(-1)!.length + 1)
      words.push(this.#dice.pick(['', '', '', '\n', '"', 'ä']) + this.#dice.upTo(36 ** 5).toString(36))
    return this.hear(words.join(' '))
  }
}

/** Three agents of a model; two of them call a tool before they answer. */
async function talkingTeam(t: Test, orchestration: Config, size: number) {
  const speech = new Speech()
  const server = await modelServer(t)
  const answer = ({ body, number }: SeenCall) => {
    const offered = JSON.stringify(body.tools ?? [])
    speech.hear(
      offered +
        body.messages
          .filter(({ role }) => role === 'system')
          .map(({ content }) => content)
          .join(),
    )
    if (offered.includes('"look"') && body.messages.at(-1)?.role !== 'tool')
      return { toolCalls: [{ name: 'look', input: { page: `${number} ${speech.make(size / 4)}` } }] }
    return speech.make(size / 2)
  }
  server.always(answer)
  const look = defineTool({
    name: 'look',
    description: 'Looks at a page.',
    input: z.object({ page: z.string() }),
    readOnly: true,
    run: () => speech.make(size),
  })
  const path = join(folderOf(t), 'log')
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Looks.', tools: ['look'] },
      { name: 'bob', description: 'Thinks.' },
      { name: 'cy', description: 'Looks too.', tools: ['look'] },
    ],
    tools: [look],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    logger: silent,
    stateManagement: { path },
    orchestration,
  })
  t.teardown(() => team.close())
  return { team, speech, path }
}

async function recordsIn(path: string): Promise<number> {
  let records = 0
  for await (const { entries } of readLog(path)) records += [...entrySpans(entries)].length
  return records
}

const strategies: Config[] = [
  { strategy: 'sequential' },
  { strategy: 'parallel' },
  { strategy: 'blackboard' },
  { strategy: 'collaborate' },
  { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cy' },
  { strategy: 'hierarchical', manager: 'bob', workers: ['ann', 'cy'] },
  { strategy: 'supervisor', supervisor: 'bob', experts: ['ann', 'cy'] },
]

for (const orchestration of strategies)
  for (const size of [300, 40_000])
    t.test(`${orchestration.strategy}, texts of up to ${size} characters`, async (t) => {
      const { team, speech, path } = await talkingTeam(t, orchestration, size)
      await team.execute(speech.make(size), { threadId: 'talk' })
      await team.close()
      const [bytes, records] = [bytesIn(path), await recordsIn(path)]
      t.ok(bytes <= 1.5 * speech.bytes + 256 * records, `${bytes} bytes; ${speech.bytes} said, ${records} records`)
    })

t.test('a query of 840,000 characters is in the log once', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Answers.' },
      { name: 'bob', description: 'Answers.' },
    ].map((agent) => ({ ...agent, maxTokens: 2_000_000 })),
    logger: silent,
    models: 'rehearsal',
    stateManagement: { path },
    orchestration: { strategy: 'sequential' },
  })
  t.teardown(() => team.close())
  const query = new Speech().make(840_000)
  await team.execute(query)
  await team.close()
  t.ok(bytesIn(path) < 1.1 * Buffer.byteLength(query), `${bytesIn(path)} bytes`)
})
