/** `dramatis chat`: a conversation with a team in one thread. readline edits the line, all above it is drawn. */

import { randomUUID } from 'node:crypto'
import { createInterface, emitKeypressEvents, type Key } from 'node:readline'
import { Writable } from 'node:stream'
import { type DigestFact, type DigestQuestion, isQuestionCut } from '../../runtime/views/digest-line.ts'
import { visible } from '../../shared/text.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import { failureWords } from '../shared/failure.ts'
import { type Redraw, redrawOn } from '../shared/redraw.ts'
import type { Print, Screen } from '../shared/screen.ts'
import { type ChatState, chatLines, costLines, taskLines, whoLines } from './chat-view.ts'
import type { Talk, TeamSource } from './source.ts'
import type { Keys } from './top.ts'
import { type ProgressOf, SeenSubtasks, WorkNews } from './work.ts'

const FRAME_MS = 200
const MOST_DRAWN = 500
const MOST_ROWS = 20_000
const TWICE_MS = 2_000
const HELP = [
  '/who       the agents, and how full their contexts are',
  '/task      the tasks so far',
  '/cost      tokens so far',
  '/answer    answers a question of another task: /answer 1 yes',
  '/stop      stops the answer that is being made; Ctrl-C does, too',
  '/thread    begins a new conversation',
  '/help      this list',
  '/quit      leaves; Ctrl-D or Ctrl-C twice do, too',
  'Ctrl-T     shows or hides the panel: agents, conversations, tasks and sub-tasks, what was said',
  'A line that begins with // is sent with one of them.',
  'A line while the team works is said to it at once, and read with the next call of a model; Alt-Enter interrupts.',
]

export interface ChatSurroundings {
  source: TeamSource
  /** Names of teams that are served beside it. */
  others?: readonly string[]
  /** Terminal that all is drawn on. If it is none, it gets what is no answer. */
  screen: Screen
  input: Keys
  /** Takes answers where the screen is no terminal. */
  tell(text: string): Promise<void>
  isTerminal: boolean
  signal: AbortSignal
  now?: () => number
}

export class Chat {
  readonly #given: ChatSurroundings
  readonly #now: () => number
  readonly #fold = new DigestFold({ mostRows: MOST_ROWS })
  readonly #over = new AbortController()
  readonly #update: Redraw | undefined
  readonly #state: ChatState = {
    writing: '',
    isBusy: false,
    hasPanel: false,
    seen: new SeenSubtasks(),
    others: new Map(),
    input: '',
    cursor: 0,
  }
  readonly #left: Promise<void>
  #thread: string = randomUUID()
  #talk: Talk | undefined
  /** Last line of the answer that is being written, as far as it has come. */
  #line = ''
  #isWell = true
  /** Text of the last failure, told once: a service that is gone fails what is watched and what is asked. */
  #failure = ''
  #isInputOver = false
  /** True while an answer to a question is on its way. */
  #isAnswering = false
  /** Time of the last Ctrl-C that stopped nothing. */
  #lastInterrupt = Number.NEGATIVE_INFINITY
  /** Tells of the work where the screen is no terminal. */
  readonly #work = new WorkNews()
  /** Numbers of others' questions: each keeps its own, so that none is answered in place of another. */
  readonly #numbers = new Map<string, number>()
  #lastNumber = 0
  /** Words that were said to runs under way, by their ids. */
  readonly #said = new Map<string, string>()
  /** Lines that wait for the answer before them. */
  readonly #next: string[] = []

  constructor(given: ChatSurroundings) {
    this.#given = given
    this.#now = given.now ?? Date.now
    if (given.isTerminal) this.#update = redrawOn(given.screen)
    const { signal } = this.#over
    this.#left = new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    given.signal.addEventListener('abort', () => this.#leave(), { once: true })
  }

  /** Writes a line of the log, or what somebody prints, above the prompt. */
  readonly print: Print = (text) => {
    this.#update?.clear()
    this.#given.screen.write(text.replace(/\n?$/, '\n'))
    this.#draw()
  }

  /** Talks until the input ends or somebody leaves. Resolves to false if the last query got no answer. */
  async talk(message: string | undefined): Promise<boolean> {
    const watching = this.#watch()
    const stop = this.#given.isTerminal ? this.#edit() : this.#read()
    const { isTerminal, others = [], source } = this.#given
    if (isTerminal) this.print('A line is a message to the team. /help lists the commands.')
    if (others.length > 0)
      this.print(`The team "${source.team}" answers. Behind the URL, /${others.join(' or /')} names another one.`)
    if (message !== undefined) this.#enter(message)
    await this.#left
    stop()
    await this.#talk?.stop().catch(() => {}) // it is left
    await watching
    this.#update?.done()
    return this.#isWell
  }

  #leave(): void {
    this.#over.abort()
  }

  async #watch(): Promise<void> {
    const progressOf: ProgressOf = (agent) => this.#given.source.progress(agent)
    try {
      for await (const line of this.#given.source.watch(this.#over.signal)) {
        const before = new Set(this.#fold.questions.keys())
        this.#fold.read(line)
        if (this.#given.isTerminal) {
          for (const fact of line.facts ?? []) this.#tick(fact)
          if (line.call) this.#state.seen.look(this.#fold.agents.keys(), progressOf)
          continue
        }
        for (const [id, { agent, text }] of this.#fold.questions)
          if (!before.has(id)) this.print(`? ${agent} asks: ${visible(text)}`)
        for (const told of this.#work.news(line, this.#fold, progressOf)) this.print(told)
        this.#takeLine()
      }
    } catch (error) {
      await this.#failed(failureWords(error))
      this.#leave()
    }
  }

  // ---- input

  /** Reads the lines of an input that is no terminal: each is a message. */
  #read(): () => void {
    const reader = createInterface({ input: this.#given.input, terminal: false })
    reader.on('line', (line) => this.#enter(line))
    reader.on('close', () => {
      this.#isInputOver = true
      this.#takeLine()
    })
    return () => reader.close()
  }

  /** Lets somebody edit a line: what is pasted is one message, of however many lines. */
  #edit(): () => void {
    const { input } = this.#given
    const unseen = new Writable({ write: (_chunk, _encoding, done) => done() })
    const reader = createInterface({ input, output: unseen, terminal: true, historySize: 200 })
    let pasted: string[] = []
    reader.on('line', (line) => {
      pasted.push(line)
      if (pasted.length > 1) return
      setImmediate(() => {
        const text = pasted.join('\n')
        pasted = []
        this.#enter(text)
      })
    })
    reader.on('SIGINT', () => this.#interrupt())
    reader.on('close', () => this.#leave())
    const press = (_text: string | undefined, { ctrl, meta, name }: Key) => {
      if (ctrl && name === 't') this.#state.hasPanel = !this.#state.hasPanel
      if (meta && (name === 'return' || name === 'enter')) {
        const { line } = reader
        reader.write(null, { ctrl: true, name: 'e' })
        reader.write(null, { ctrl: true, name: 'u' })
        this.#enter(line, true)
      }
      this.#state.input = reader.line
      this.#state.cursor = reader.cursor
      this.#draw()
    }
    emitKeypressEvents(input)
    input.on('keypress', press)
    const frames = setInterval(() => this.#draw(), FRAME_MS)
    return () => {
      clearInterval(frames)
      input.off('keypress', press)
      reader.close()
    }
  }

  /**
   * Takes the next line of an input that is no terminal: as the answer of a question that stands between, else as a
   * message. At the end of the input nobody can answer any more.
   */
  #takeLine(): void {
    if (this.#isAnswering) return
    const question = this.#question()
    if (this.#state.isBusy && !question) return
    const line = this.#next.shift()
    if (line === undefined) {
      if (!this.#isInputOver) return
      if (question) void this.#giveUp(question)
      else this.#leave()
    } else if (question) void this.#answer(question, line)
    else void this.#say(line)
  }

  /** Returns the oldest question of the task that this conversation waits for. */
  #question(): DigestQuestion | undefined {
    return [...this.#fold.questions.values()].find(({ runId }) => this.#isOwn(runId))
  }

  #isOwn(runId: string): boolean {
    return runId === this.#talk?.runId
  }

  #others(): Map<number, DigestQuestion> {
    const others = [...this.#fold.questions.values()].filter(({ runId }) => !this.#isOwn(runId))
    const open = new Set(others.map(({ questionId }) => questionId))
    for (const id of this.#numbers.keys()) if (!open.has(id)) this.#numbers.delete(id)
    for (const id of open) if (!this.#numbers.has(id)) this.#numbers.set(id, ++this.#lastNumber)
    return new Map(others.map((question) => [this.#numbers.get(question.questionId)!, question]))
  }

  /** Answers a question of another task: `/answer 2 yes`. */
  #answerOther(text: string): void {
    const [, number, answer] = /^\/answer\s+(\d+)\s+([\s\S]+)$/.exec(text) ?? []
    const question = this.#others().get(Number(number))
    if (question && answer) void this.#answer(question, answer)
    else this.print('/answer takes the number of a question of another task, and the answer: /answer 1 yes')
  }

  /** Stops an answer that needs one of somebody who has left. */
  async #giveUp({ agent, questionId }: DigestQuestion): Promise<void> {
    this.#fold.questions.delete(questionId)
    await this.#failed(`${agent} asks a question, and the input has ended: nobody can answer`)
    await this.#stop()
  }

  #interrupt(): void {
    if (this.#talk) return void this.#stop()
    const now = this.#now()
    if (now - this.#lastInterrupt < TWICE_MS) return this.#leave()
    this.#lastInterrupt = now
    this.print('Ctrl-C again leaves.')
  }

  async #stop(): Promise<void> {
    if (!this.#talk) return this.print('nothing is under way')
    this.#said.clear()
    await this.#talk.stop().catch((error: unknown) => this.print(failureWords(error)))
  }

  /** `interrupts`: what is under way is cut for it. */
  #enter(line: string, interrupts = false): void {
    const text = line.trim()
    this.#state.input = ''
    this.#state.cursor = 0
    if (text === '') return
    if (text.startsWith('/') && !text.startsWith('//')) return this.#command(text)
    const message = text.replace(/^\/\//, '/')
    if (!this.#given.isTerminal) {
      this.#next.push(message)
      return this.#takeLine()
    }
    const question = this.#question()
    if (question) return void this.#answer(question, message)
    if (this.#state.isBusy) void this.#steer(message, interrupts)
    else void this.#say(message)
  }

  #command(text: string): void {
    const [name] = text.split(/\s/, 1)
    switch (name) {
      case '/who':
        return this.print(whoLines(this.#fold, this.#given.source).join('\n'))
      case '/task':
        return this.print(taskLines(this.#fold).join('\n'))
      case '/cost':
        return this.print(costLines(this.#fold).join('\n'))
      case '/answer':
        return this.#answerOther(text)
      case '/stop':
        return void this.#stop()
      case '/thread':
        this.#thread = randomUUID()
        return this.print('A new conversation begins.')
      case '/help':
        return this.print(HELP.join('\n'))
      case '/quit':
        return this.#leave()
      default:
        return this.print(`There is no command ${name}. /help lists them.`)
    }
  }

  // ---- talk

  async #answer(question: DigestQuestion, text: string): Promise<void> {
    const { questionId, agent, choices = [], approval } = question
    if (approval && isQuestionCut(question)) {
      this.print('It is too long for a line: answer it where all of it can be read, as on the dashboard.')
      if (!this.#given.isTerminal) this.#takeLine()
      return
    }
    const answer = choices.includes(text) ? text : (choices[Number(text) - 1] ?? text)
    this.#isAnswering = true
    try {
      await this.#given.source.answer(question, answer)
      const { agreed = [], quorum = 1 } = this.#fold.questions.get(questionId)?.approval ?? approval ?? {}
      if (quorum - agreed.length <= 1) this.#fold.questions.delete(questionId) // else it stays open for others
      this.print(`You, to ${agent}: ${visible(answer)}`)
    } catch (error) {
      this.print(failureWords(error))
    }
    this.#isAnswering = false
    if (!this.#given.isTerminal) this.#takeLine()
  }

  /** Says words to the answer that is being made; they are the next message if that has ended. */
  async #steer(words: string, interrupts: boolean): Promise<void> {
    const id = randomUUID()
    this.#said.set(id, words)
    try {
      if (await this.#talk?.steer(words, { id, when: interrupts ? 'interrupt' : 'next' }))
        return this.print(`You${interrupts ? ', interrupting' : ''}: ${visible(words, '\n')}`)
    } catch (error) {
      return this.print(failureWords(error))
    }
    this.#sayNext(words)
  }

  #sayNext(message: string): void {
    if (this.#state.isBusy) this.#next.push(message)
    else void this.#say(message)
  }

  /** Ticks what was said to a run when it is read. What nobody has read at its end is the next message. */
  #tick({ type, steerId, agent }: DigestFact): void {
    const words = this.#said.get(String(steerId))
    if (words === undefined) return
    if (type === 'steer.read') this.print(`✓ ${visible(String(agent))} has read: ${visible(words)}`)
    if (type !== 'steer.unread') return
    this.#said.delete(String(steerId))
    this.#sayNext(words)
  }

  async #say(query: string): Promise<void> {
    this.#state.isBusy = true
    this.#failure = ''
    if (this.#given.isTerminal) this.print(`You: ${visible(query, '\n')}`)
    try {
      this.#talk = this.#given.source.say(query, this.#thread)
      let said = ''
      let isAnother = false // the gap before the words of another speaker is the line that says so
      for await (const { end, text, speaker } of this.#talk.said) {
        if (end) this.#talk = undefined // there is nothing to stop any more
        if (end === 'failure') await this.#failed(text)
        else if (end === 'answer') await this.#write(`${said === '' ? text : ''}\n`)
        else if (speaker !== undefined) {
          if (this.#line !== '') await this.#write('\n')
          this.print(`${visible(speaker)} speaks now`)
          isAnother = said !== ''
        } else if (!isAnother || text.trim() !== '') {
          said += text
          isAnother = false
          await this.#write(text)
        }
      }
    } catch (error) {
      if (!this.#over.signal.aborted) await this.#failed(failureWords(error))
    }
    this.#talk = undefined
    this.#state.isBusy = false
    if (this.#given.isTerminal) {
      const next = this.#next.shift()
      if (next !== undefined) void this.#say(next)
    } else this.#takeLine()
    this.#draw()
  }

  /** Writes a piece of an answer: whole lines stay, the last one is drawn. */
  async #write(text: string): Promise<void> {
    this.#isWell = true
    if (!this.#given.isTerminal) return this.#given.tell(text)
    const lines = visible(text, '\n').split('\n')
    const rest = lines.pop()!
    for (const line of lines) {
      this.print(this.#line + line)
      this.#line = ''
      this.#state.writing = ''
    }
    this.#line += rest // a line may come in 80,000 pieces: it is put together when it is whole
    if (this.#state.writing.length < MOST_DRAWN) this.#state.writing += rest.slice(0, MOST_DRAWN)
    this.#draw()
  }

  async #failed(text: string): Promise<void> {
    if (this.#line !== '') await this.#write('\n')
    this.#isWell = false
    if (text !== this.#failure) this.print(`error: ${visible(text)}`)
    this.#failure = text
  }

  #draw(): void {
    if (!this.#update || this.#over.signal.aborted) return
    const { columns = 80, rows = 24 } = this.#given.screen
    const size = { width: columns - 1, height: rows - 1 }
    this.#state.others = this.#others()
    this.#update(chatLines(this.#fold, this.#state, size, this.#now(), this.#given.source).join('\n'))
  }
}
