/** `dramatis chat`: messages go to the team in one thread, answers come back, and questions are answered in between. */
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type AgentDefinition, type AgentRole, defineAgent, defineTool } from '../../src/index.ts'
import { chat, top } from '../../src/service/commands/screens.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { localSource } from '../../src/service/terminal/source.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { testTeam } from '../../src/testing.ts'
import { gate, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { fakeScreen, fakeSurroundings } from '../service/fake-team.ts'
import { echo, stage, throws } from '../team/stage.ts'
import { FakeTerminal } from './fake-terminal.ts'

const alive = systemClock.hold()
t.teardown(() => alive.cancel())

const never = new AbortController().signal

/** A conversation over pipes: the lines that go in, and what comes out. */
async function piped(t: Test, agent: AgentDefinition, lines: readonly string[], message?: string) {
  const team = stage(t, { a: agent })
  await team.start()
  const terminal = new FakeTerminal()
  let answers = ''
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen as Screen,
    input: Readable.from(lines.map((line) => `${line}\n`)),
    tell: async (text) => {
      answers += text
    },
    isTerminal: false,
    signal: never,
  })
  const isWell = await chat.talk(message)
  return { isWell, answers, said: terminal.text, team }
}

t.test('each line of a pipe is a message, and each answer comes on stdout', async (t) => {
  const { isWell, answers, team } = await piped(t, echo, ['one', '', 'two', '//three'], 'zero')
  t.equal(isWell, true)
  t.same(answers.split('\n').filter(Boolean), ['a: zero', 'a: one', 'a: two', 'a: /three'])
  const threads = new Set((await team.listRuns()).map(({ threadId }) => threadId))
  t.equal(threads.size, 1, 'it is one conversation')
})

/** Asks for a colour if it is told to choose. */
const chooses = defineAgent({
  async receive({ content }, context) {
    if (content !== 'choose') return `a: ${content}`
    return `It is ${await context.ask('Which one?', { choices: ['red', 'green'] })}.`
  },
})

t.test('a line of a pipe that was not sent yet answers a question', async (t) => {
  const { isWell, answers, said } = await piped(t, chooses, ['choose', 'blue', '2', 'thanks'])
  t.match(said, /\? a asks: Which one\?[\s\S]*You, to a: green/)
  t.same(answers.split('\n').filter(Boolean), ['It is green.', 'a: thanks'])
  t.equal(isWell, true)
})

t.test('a question after the last line of a pipe stops the answer, and says why', async (t) => {
  const { isWell, answers, said, team } = await piped(t, chooses, ['one', 'choose'])
  t.match(said, /error: a asks a question, and the input has ended: nobody can answer/)
  t.same([isWell, answers.trim()], [false, 'a: one'])
  t.match(await team.listRuns(), [{ status: 'aborted' }, { status: 'finished' }])
})

t.test('Ctrl-C while the team file is loaded leaves, and nothing is asked', async (t) => {
  const file = fileURLToPath(new URL('../fixtures/cli/echo-team.js', import.meta.url))
  const talking = fakeSurroundings()
  const shown = fakeScreen({ columns: 80, rows: 24 })
  const codes = [
    chat(file, 'hello', {}, talking.surroundings),
    top(file, 'hello', {}, { ...fakeSurroundings().surroundings, stderr: shown.screen }),
  ]
  process.emit('SIGINT')
  t.same(await Promise.all(codes), [130, 130])
  t.same([talking.stdout(), shown.text()], ['', ''])
})

t.test('/thread begins another conversation; a command that is none is refused', async (t) => {
  const { said, team } = await piped(t, echo, ['one', '/nonsense', '/help', '/cost', '/who'])
  t.match(said, /There is no command \/nonsense/)
  t.match(said, /\/stop +stops/)
  t.match(said, /no model was called/)
  t.match(said, /a: idle/)
  t.equal((await team.listRuns()).length, 1)
})

t.test('a query without an answer is said, and the exit says so', async (t) => {
  const { isWell, said, answers } = await piped(t, throws('broken'), ['one'])
  t.equal(isWell, false)
  t.match(said, /error: .*broken/)
  t.equal(answers, '')
})

/** A conversation at a terminal. */
function atTerminal(t: Test, agent: AgentDefinition, tools: AgentRole['tools'] = []) {
  const team = stage(t, { a: { code: agent, tools } })
  const terminal = new FakeTerminal({ columns: 100, rows: 30 })
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: never,
  })
  const talking = chat.talk(undefined)
  return { team, terminal, talking }
}

t.test('at a terminal the line is edited, Ctrl-T shows the team, and Ctrl-D leaves', async (t) => {
  const { terminal, talking } = atTerminal(t, echo)
  await terminal.shows('A line is a message')
  terminal.press('helo')
  await terminal.shows('> helo')
  terminal.press('\u007f')
  terminal.press('lo\r')
  await terminal.shows(/You: hello[\s\S]*a: hello/)
  terminal.press('\u001b[A') // the line before
  await terminal.shows('> hello')
  terminal.press('\u0015\u0014') // no line, and the panel
  await terminal.shows('-- team')
  terminal.press('\u0004')
  t.equal(await talking, true)
})

t.test('what is pasted is one message', async (t) => {
  const { team, terminal, talking } = atTerminal(t, echo)
  await terminal.shows('A line is a message')
  terminal.press('first\rsecond\r')
  await terminal.shows('second')
  while ((await team.listRuns({ status: 'finished' })).length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  t.match(await team.listRuns(), [{ query: 'first\nsecond' }])
  terminal.press('/quit\r')
  await talking
})

t.test('a question is answered in between, by its number', async (t) => {
  const asks = defineAgent({
    receive: async (_message, context) => `It is ${await context.ask('Which one?', { choices: ['red', 'green'] })}.`,
  })
  const { terminal, talking } = atTerminal(t, asks)
  await terminal.shows('A line is a message')
  terminal.press('choose\r')
  await terminal.shows('? a asks: Which one?  1 red  2 green')
  terminal.press('2\r')
  await terminal.shows(/You, to a: green[\s\S]*It is green\./)
  terminal.press('\u0004')
  t.equal(await talking, true)
})

t.test('an approval says what it takes, and is answered as the person at the terminal', async (t) => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number(), note: z.string() }),
    approval: { quorum: 2 },
    answerWithinMs: 7_200_000,
    run: ({ cents }) => `paid ${cents}`,
  })
  const pays = defineAgent({
    receive: async ({ content }, context) =>
      String(await context.tool('pay', { cents: 5, note: 'x'.repeat(Number(content)) })),
  })
  const { team, terminal, talking } = atTerminal(t, pays, [pay])
  await terminal.shows('A line is a message')
  terminal.press('3\r')
  await terminal.shows(/a asks: May agent[\s\S]*2\s+have\s+to\s+agree/)
  terminal.press('1\r')
  await terminal.shows(/You, to a: yes[\s\S]*cli:\S+@\S+\s+has/)
  terminal.press('1\r')
  await terminal.shows(/cli:\S+@\S+\s+has\s+agreed\s+already/)
  const { questionId } = team.questions()[0]!
  await team.answer(questionId, 'yes', { by: { id: 'eve' } })
  await terminal.shows('paid 5')
  terminal.press('3000\r')
  await terminal.shows('a asks: May agent "a"')
  terminal.press('1\r')
  await terminal.shows('It is too long for a line')
  t.match(team.questions(), [{ agreed: [] }])
  terminal.press('\u0004')
  await talking
})

t.test('a line answers no question of another task; /answer does, by its number', async (t) => {
  const { team, terminal, talking } = atTerminal(t, chooses)
  await terminal.shows('A line is a message')
  const other = team.launch('choose')
  await terminal.shows('? a asks in another task (/answer 1 ...): Which one?  1 red  2 green')
  terminal.press('1\r')
  await terminal.shows('You: 1')
  t.notMatch(terminal.text, 'You, to a', 'it is a message')
  terminal.press('/answer 7 1\r')
  await terminal.shows('/answer takes the number of a question of another task')
  terminal.press('/answer 1 2\r')
  await terminal.shows('You, to a: green')
  t.match(await other.result, { finalOutput: 'It is green.' })
  await terminal.shows('a: 1')
  terminal.press('\u0004')
  await talking
})

t.test('Ctrl-C stops the answer that is being made; twice without one leaves', async (t) => {
  const waits = defineAgent({ receive: async (_message, context) => String(await context.sleep(60_000)) })
  const { team, terminal, talking } = atTerminal(t, waits)
  await terminal.shows('A line is a message')
  terminal.press('go\r')
  await terminal.shows('You: go')
  while ((await team.listRuns({ status: 'running' })).length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  terminal.press('\u0003')
  await terminal.shows(/error: The run was aborted/)
  terminal.press('\u0003')
  await terminal.shows('Ctrl-C again leaves.')
  terminal.press('\u0003')
  await talking
  t.match(await team.listRuns(), [{ status: 'aborted' }])
})

t.test(
  'a line that is typed while a model works is said to it, Alt-Enter interrupts, and a tick says who has read it',
  async (t) => {
    const held = [gate(), gate()]
    const asked = gate()
    const model = new FakeModel(async ({ messages }, nth) => {
      asked.open()
      await held[nth]?.opened
      return `after ${messages.filter(({ role }) => role === 'user').map(({ content }) => content)}`
    })
    const team = testTeam(
      { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
      { model },
    )
    t.teardown(() => team.close())
    const terminal = new FakeTerminal()
    const source = localSource(team)
    const chat = new Chat({
      source,
      screen: terminal.screen as Screen,
      input: terminal.keys,
      tell: async () => {},
      isTerminal: true,
      signal: never,
    })
    const talked = chat.talk('How long?')
    await terminal.shows('You: How long?')
    await asked.opened
    terminal.press('In metres.\r')
    await terminal.shows('You: In metres.')
    terminal.press('Now!\x1b\r')
    await terminal.shows('You, interrupting: Now!')
    await terminal.shows('✓ ann has read: In metres.')
    await terminal.shows('✓ ann has read: Now!')
    held[1]!.open()
    await terminal.shows('after How long?,In metres.,Now!')
    t.equal(model.requests.length, 2)
    terminal.press('/quit\r')
    t.equal(await talked, true)
    held[0]!.open()
  },
)
