/**
 * The loop of model and tools. The model answers, its tool calls are executed, and it gets their results, until it
 * answers without a tool call. Each call of the model and of a tool is a step, so a redelivered turn comes to the same
 * place without paying twice. Source: ReAct (Yao et al., 2023).
 */

import { LivelockError, ModelError } from '../../shared/errors.ts'
import { checkObject, checkReadable, checkText, wrongArgument } from '../definition/checks.ts'
import { asJson, contentFault, type PartKeeper, transcriptOf } from '../definition/content.ts'
import {
  type AnswerFunction,
  addUsage,
  type Completion,
  type CompletionRequest,
  type ModelAnswer,
  type ModelCall,
  type ModelMessage,
  NO_TOKENS,
  type Watched,
} from '../definition/model.ts'
import { MODEL_OPTION_NAMES, MODEL_OPTIONS, modelOptionsOf } from '../definition/model-options.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { ModelSchema } from '../definition/tool.ts'
import { type Floor, type Heirs, PassingOn } from './conversation.ts'
import { checkedAnswer, checkSchema, noAnswerOf, writtenSchema } from './structured-output.ts'
import { subTaskNumber, tellsOfSubTasks } from './summary.ts'
import { type CallMade, OfferedTools, RoundsWatch } from './tool-calls.ts'
import { type ThinkingTurn, type VerbTool, watchedIn } from './verb-tools.ts'
import { type LeftOut, type Remembered, ThinkingContext } from './window.ts'

const COMPLETION = ['prompt', 'messages', 'model', 'output', 'stream', 'signal', ...MODEL_OPTION_NAMES]

const ROLES: ReadonlySet<unknown> = new Set<ModelMessage['role']>(['system', 'user', 'assistant', 'tool'])

/** Throws `MessageRejectedError` for the first wrong field. `others`: additional fields that the request may have. */
function checkCompletion(request: unknown, others: readonly string[] = []): void {
  checkObject(request, 'request')
  checkReadable(request as object, 'request')
  const known = [...COMPLETION, ...others]
  for (const key in request as object)
    if (!known.includes(key))
      throw wrongArgument(
        key,
        Reflect.get(request as object, key),
        `a request has no such field; it has ${known.join(', ')}`,
      )
  const { prompt, messages, model, output, stream, signal } = request as Record<string, unknown>
  if (prompt === undefined && messages === undefined)
    throw wrongArgument('prompt', prompt, 'a prompt or messages are needed')
  if (prompt !== undefined && messages !== undefined)
    throw wrongArgument('messages', messages, 'it goes without a prompt: give one of the two')
  if (prompt !== undefined) checkText(prompt, 'prompt')
  if (messages !== undefined) checkMessages(messages)
  if (model !== undefined && (typeof model !== 'string' || model === ''))
    throw wrongArgument('model', model, 'the name of a model is needed')
  if (output !== undefined) checkSchema(output, 'output')
  for (const name of MODEL_OPTION_NAMES) {
    const option: unknown = Reflect.get(request as object, name)
    const { accepted, accepts } = MODEL_OPTIONS[name]
    if (option !== undefined && !accepts(option)) throw wrongArgument(name, option, `${accepted} is needed`)
  }
  if (stream !== undefined && typeof stream !== 'boolean')
    throw wrongArgument('stream', stream, 'true or false is needed')
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
}

function checkCount(value: unknown, path: string): void {
  if (!Number.isSafeInteger(value) || Number(value) < 1)
    throw wrongArgument(path, value, 'an integer from 1 on is needed')
}

function checkMessages(messages: unknown): void {
  if (!Array.isArray(messages) || messages.length === 0)
    throw wrongArgument('messages', messages, 'a list of at least one message is needed')
  for (const [i, message] of messages.entries()) {
    checkObject(message, `messages[${i}]`)
    const { role, content } = message as Partial<ModelMessage>
    if (!ROLES.has(role)) throw wrongArgument(`messages[${i}].role`, role, `one of ${[...ROLES].join(', ')} is needed`)
    const fault = contentFault(content, `messages[${i}].content`)
    if (fault) throw wrongArgument(fault.path, fault.value, fault.needed)
  }
}

/** Returns the model call for a checked request; fields that it lacks come from the role. */
function callOf(role: RoleInfo, request: CompletionRequest<unknown>, keeper: PartKeeper): ModelCall {
  const { prompt = '', messages = promptMessages(role, prompt), output, stream } = request
  const model = request.model ?? role.model
  return {
    messages: messages.map((message) => portable(message, keeper)),
    ...(model !== undefined && { model }),
    ...(output && { jsonSchema: writtenSchema(output, 'output') }),
    ...modelOptionsOf(request, role),
    ...(stream && { stream }),
  }
}

/** Returns a message as it crosses to the host. */
const portable = (message: ModelMessage, keeper: PartKeeper): ModelMessage =>
  typeof message.content === 'string' ? message : { ...message, content: asJson(message.content, keeper) }

/** Returns the messages for a prompt: the system prompt of the role, if any, then the prompt. */
const promptMessages = ({ systemPrompt }: RoleInfo, prompt: string): ModelMessage[] => [
  ...(systemPrompt ? [{ role: 'system' as const, content: systemPrompt }] : []),
  { role: 'user', content: prompt },
]

export async function complete<T>(turn: ThinkingTurn, request: CompletionRequest<T>): Promise<Completion<T>> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  checkCompletion(request)
  const { output, signal } = request
  const { name } = turn.role
  const watched = watchedIn(turn, 1, 'call')
  const call = { ...callOf(turn.role, request, turn.partKeeper), ...(watched && { watched }) }
  const ask = async (again: typeof call) => withoutTools(await turn.ask(again, signal), name)
  const answer = await ask(call)
  if (!output) return completionOf(answer, undefined as T)
  const checked = await checkedAnswer(output, call, answer, ask, noAnswerOf(name))
  return completionOf(checked.answer, checked.output)
}

function completionOf<T>({ text, parts = [], usage, finishReason, rehearsed }: ModelAnswer, output: T): Completion<T> {
  const reasoning = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')
  return { text, ...(reasoning !== '' && { reasoning }), output, usage, finishReason, rehearsed }
}

/** Throws if the model calls a tool: none was offered to it. */
function withoutTools(answer: ModelAnswer, agent: string): ModelAnswer {
  const [called] = answer.toolCalls
  if (!called) return answer
  const { model } = answer
  throw new ModelError(
    `The model "${model}" called the tool "${called.name}" for "${agent}", which offered it none. Use context.think for a model with tools.`,
    { agent, model, tool: called.name, reason: 'invalid_answer', code: 'unknown_tool' },
  )
}

/**
 * Request to a model that may use tools. `tools`: names of the only tools it may use. `maxRounds`: number of rounds of
 * model and tools before the turn escalates.
 */
export type Thinking<T = undefined> = CompletionRequest<T> & { tools?: string[]; maxRounds?: number }

/** The answer, and the messages on the way to it, with which the conversation continues. */
export interface ThoughtAloud<T> {
  completion: Completion<T>
  transcript: ModelMessage[]
  /** The part of all messages, from those of the request on, that the model no longer sees. */
  left: LeftOut
  /** Structured data of an answer that a verb has given. */
  data?: object
  /** True if another agent answers: this one has no answer. */
  isHandedOff?: true
  /** Passes the conversation on, with the messages of `transcript`. */
  passing: PassingOn
}

/**
 * Additions by the role: what it remembers besides the messages, and which agents inherit from it. `wordsStand`: an
 * answer that misses its schema twice counts as an answer without data; the caller can use its text. `answerFunction`:
 * the answer is wanted as a call of it. Tools of the role are offered besides, and may be called before. `answerOf`:
 * whose answer it may be, for those who watch. `decisions`: verbs of this turn alone. `floor`: the conversation for an
 * agent that answers in the place of this one. `outputOfRun`: schema of an answer that ends the whole task.
 * `demanded`: tool that the first answer has to call; another one is sent back once.
 */
export type Background<T> = Remembered & {
  heirs?: Heirs
  floor?: Floor
  wordsStand?: boolean
  answerFunction?: AnswerFunction
  answerOf?: Watched['answerOf']
  decisions?: readonly VerbTool[]
  outputOfRun?: ModelSchema<unknown, T> | undefined
  demanded?: string
}

export const MAX_ROUNDS = 12
/** The model has words of people still to read. */
const STEERED = Symbol('steered')
/** Verb that ends a turn without an answer. */
const REFUSE = 'refuse'
/** Number of rounds with an answer of a person that do not count: an answer may come from a program that has no end. */
const MOST_ANSWERED_ROUNDS = 200
/** Limit of rounds with calls of nonexistent tools only: such a model does not find its mistake by itself. */
const MOST_LOST_ROUNDS = 3

export async function thinkAloud<T>(
  turn: ThinkingTurn,
  given: string | Thinking<T>,
  background: Background<T> = {},
): Promise<ThoughtAloud<T>> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  const request: Thinking<T> = typeof given === 'string' ? { prompt: given } : given
  check(request)
  return new Loop(turn, request, background).run()
}

function check(request: Thinking<unknown>): void {
  checkCompletion(request, ['tools', 'maxRounds'])
  const { tools, maxRounds } = request
  if (maxRounds !== undefined) checkCount(maxRounds, 'maxRounds')
  if (tools !== undefined && !(Array.isArray(tools) && tools.every((name) => typeof name === 'string')))
    throw wrongArgument('tools', tools, 'a list of names is needed')
}

class Loop<T> {
  readonly #turn: ThinkingTurn
  readonly #request: Thinking<T>
  readonly #call: ModelCall
  readonly #tools: OfferedTools
  readonly #context: ThinkingContext
  readonly #passing: PassingOn
  readonly #maxRounds: number
  /**
   * True if the answer is streamed. Without a tool to call, but to refuse, and a schema to miss, each word belongs to
   * the answer.
   */
  readonly #inPieces: boolean
  /** Result for an answer that misses the schema twice. */
  readonly #missed: Parameters<typeof checkedAnswer<T>>[4]
  readonly #rounds: RoundsWatch | undefined
  /** Messages since the request. */
  readonly #said: ModelMessage[] = []
  readonly #answerOf: Watched['answerOf']
  readonly #outputOfRun: ModelSchema<unknown, T> | undefined
  /** Tool that the model has to call first. */
  #demanded: string | undefined
  /** Number of times that the model was asked. */
  #asked = 0
  #usage = NO_TOKENS
  #rehearsed = false
  #lost = 0
  #answeredRounds = 0
  /** Number of the sub-task that it is at; 0 without any. */
  #subTask = 0
  /** True once the model has called a tool that exists: a `toolChoice` that demands a call is fulfilled then. */
  #hasCalled = false

  constructor(turn: ThinkingTurn, request: Thinking<T>, background: Background<T>) {
    this.#turn = turn
    this.#request = request
    const said = () => [...this.#call.messages, ...withoutOpenCalls(this.#said, this.#tools.done)]
    const passedOn = (messages: readonly ModelMessage[]) => this.#context.passedOn(messages)
    this.#passing = new PassingOn(background.heirs ?? {}, said, passedOn, background.floor)
    this.#tools = new OfferedTools(turn, request.tools, this.#passing, background.answerFunction, background.decisions)
    const { answerFunction } = this.#tools
    this.#call = {
      ...callOf(turn.role, { ...request, stream: false }, turn.partKeeper),
      ...(answerFunction && { answerFunction }),
    }
    this.#context = new ThinkingContext(turn, this.#call, background, (call) => this.#pay(call))
    const canCall = this.#tools.specs.some(({ name }) => name !== REFUSE)
    this.#inPieces = request.stream === true && !canCall && !request.output
    this.#answerOf = background.answerOf ?? 'call'
    this.#outputOfRun = background.outputOfRun
    this.#demanded = background.demanded
    this.#missed = background.wordsStand ? () => undefined as T : noAnswerOf(turn.role.name)
    this.#rounds = turn.loops ? new RoundsWatch(turn.role.name, turn.loops) : undefined
    this.#maxRounds = request.maxRounds ?? turn.role.maxRounds ?? MAX_ROUNDS
  }

  async run(): Promise<ThoughtAloud<T>> {
    let guided = false
    for (let round = 1; ; round++) {
      const answer = await this.#ask()
      const demanded = this.#demanded
      if (demanded !== undefined && !answer.toolCalls.some(({ name }) => name === demanded) && round === 1) {
        this.#sendBack(answer, demanded)
        continue
      }
      this.#demanded = undefined
      if (answer.toolCalls.length === 0) {
        if (!this.#turn.delegated.hasNews) return this.#answered(answer)
        await this.#tellOutcomes(answer.text)
        continue
      }
      const refuses = answer.toolCalls.some(({ name }) => name === REFUSE)
      if (this.#inPieces && answer.text !== '' && !refuses)
        throw this.#isLost(answer, 'after words that were read as its answer')
      this.#said.push({ role: 'assistant', content: answer.parts ?? answer.text, toolCalls: answer.toolCalls })
      const { messages, made, ends, known, byPerson } = await this.#tools.perform(
        answer.toolCalls,
        this.#request.signal,
      )
      this.#said.push(...messages)
      if (ends?.isHandoff) return this.#handedOff(answer, messages)
      if (ends?.isFinal) return this.#finished(answer, ends.ends)
      if (ends) return this.#ended(answer, ends.ends, ends.data)
      this.#lost = known > 0 ? 0 : this.#lost + 1
      this.#hasCalled ||= known > 0
      if (this.#lost >= MOST_LOST_ROUNDS) throw this.#isLost(answer)
      await this.#look(made)
      if (this.#beginsSubTask(answer)) {
        guided = false
        round = 0
      } else if (byPerson && this.#answeredRounds < MOST_ANSWERED_ROUNDS) {
        this.#answeredRounds += 1
        round -= 1 // what a person answers is progress
      }
      if (answer.steered) round -= 1 // what people say is to be done, too
      if (round < this.#maxRounds) continue
      if (this.#turn.delegated.hasNews) {
        await this.#tellOutcomes()
        round = 0
        continue
      }
      const result = await this.#escalate(guided)
      if (result === STEERED) continue
      if (result !== undefined) return this.#ended(answer, result)
      guided = true
      round = 0
    }
  }

  /** Waits for the tasks that the model has given away, and tells it what came of them. `words`: its early answer. */
  async #tellOutcomes(words = ''): Promise<void> {
    const content = await this.#turn.delegated.news()
    if (words !== '') this.#said.push({ role: 'assistant', content: words })
    this.#said.push({ role: 'user', content })
  }

  /** Checks whether the model has come to another of its sub-tasks: each has rounds of its own. */
  #beginsSubTask({ toolCalls }: ModelAnswer): boolean {
    const isOffered = (called: string) => this.#tools.specs.some(({ name }) => name === called)
    if (!toolCalls.some(({ name }) => tellsOfSubTasks(name) && isOffered(name))) return false
    const before = this.#subTask
    this.#subTask = Math.max(before, subTaskNumber(this.#said))
    return this.#subTask > before
  }

  #sendBack({ text, parts, toolCalls }: ModelAnswer, demanded: string): void {
    const content = `Not done: this sub-task names the tool "${demanded}". Call it first.`
    if (toolCalls.length === 0) {
      if (text !== '') this.#said.push({ role: 'assistant', content: text })
      this.#said.push({ role: 'user', content })
      return
    }
    this.#said.push({ role: 'assistant', content: parts ?? text, toolCalls })
    for (const { id } of toolCalls) this.#said.push({ role: 'tool', toolCallId: id, content })
  }

  async #ask(messages = this.#said, specs = this.#tools.specs): Promise<ModelAnswer> {
    const { news } = this.#turn
    if (news.isWanted) for (const content of await news.read()) messages.push({ role: 'user', content })
    const shown = await this.#context.shown([...this.#call.messages, ...messages], specs)
    const { toolChoice, ...rest } = this.#call
    const isEarly = this.#turn.delegated.hasNews // then its words are no answer yet
    const watched = watchedIn(this.#turn, ++this.#asked, isEarly ? 'call' : this.#answerOf)
    const call = { ...rest, messages: shown, ...(this.#inPieces && { stream: true }), ...(watched && { watched }) }
    const isDemand = toolChoice !== 'auto' && toolChoice !== 'none'
    const demanded = this.#demanded === undefined ? undefined : { toolChoice: { tool: this.#demanded } }
    const choice = toolChoice === undefined || (isDemand && this.#hasCalled) ? {} : { toolChoice }
    return this.#pay({ ...call, ...(specs.length > 0 && { tools: specs, ...(demanded ?? choice) }) })
  }

  async #pay(call: ModelCall): Promise<ModelAnswer> {
    const answer = await this.#turn.ask(call, this.#request.signal)
    this.#usage = addUsage(this.#usage, answer.usage)
    this.#rehearsed ||= answer.rehearsed
    if (answer.steered) this.#said.push(...answer.steered)
    return answer
  }

  async #answered(answer: ModelAnswer, output = this.#request.output): Promise<ThoughtAloud<T>> {
    if (!output) return this.#end(answer, undefined as T)
    const call = { ...this.#call, messages: this.#said }
    // An answer that is to be a function call comes after the tools were used: so the model may only call that
    // function.
    const offered = call.answerFunction ? [] : this.#tools.specs
    const again = ({ messages }: { messages: readonly ModelMessage[] }) => this.#ask([...messages], offered)
    const checked = await checkedAnswer(output, call, answer, again, this.#missed)
    return this.#end(checked.answer, checked.output)
  }

  #end(answer: ModelAnswer, output: T): ThoughtAloud<T> {
    this.#said.push({ role: 'assistant', content: answer.text })
    if (this.#request.stream && !this.#inPieces && answer.text !== '') this.#turn.context.emit(answer.text)
    return this.#completed(answer, output)
  }

  #completed(answer: ModelAnswer, output: T): ThoughtAloud<T> {
    const all = { ...answer, usage: this.#usage, rehearsed: this.#rehearsed }
    const completion = completionOf(all, output)
    return { completion, transcript: this.#said, left: this.#context.left, passing: this.#passing }
  }

  async #ended(last: ModelAnswer, text: string, data?: object): Promise<ThoughtAloud<T>> {
    const answer = spokenBy(last, text)
    if (data) return { ...this.#end(answer, undefined as T), data }
    return text === '' ? this.#end(answer, undefined as T) : this.#answered(answer)
  }

  /** Ends with an answer that ends the whole task, and so has to fit the schema of the run, if it has one. */
  #finished(last: ModelAnswer, text: string): Promise<ThoughtAloud<T>> {
    this.#turn.finish()
    return this.#answered(spokenBy(last, text), this.#outputOfRun ?? this.#request.output)
  }

  /**
   * Ends without an answer: another agent gives it. The words of the last round were said, and the calls before the
   * handoff were made. The handoff itself is no part of the conversation: an agent that comes back to it has said no
   * empty answer, and has no call that nothing but the end of its turn had answered.
   */
  #handedOff(last: ModelAnswer, results: readonly ModelMessage[]): ThoughtAloud<T> {
    const before = results.slice(0, -1)
    const toolCalls = last.toolCalls.slice(0, before.length)
    this.#said.splice(-1 - results.length)
    if (toolCalls.length > 0)
      this.#said.push({ role: 'assistant', content: last.parts ?? last.text, toolCalls }, ...before)
    else if (last.text !== '') this.#said.push({ role: 'assistant', content: last.text })
    return { ...this.#completed(spokenBy(last, ''), undefined as T), isHandedOff: true }
  }

  /**
   * Asks the manager once when the rounds are used up. With guidance the model has as many rounds again. If another
   * agent has done the task, its answer is the answer. Words of people that are still to be read come before all that.
   * Without help the turn refuses.
   */
  async #escalate(guided: boolean): Promise<string | typeof STEERED | undefined> {
    const { context } = this.#turn
    const rounds = guided ? 2 * this.#maxRounds : this.#maxRounds
    const of = this.#subTask === 0 ? '' : ` in sub-task ${this.#subTask}`
    const reason = `its model has no answer after ${rounds} rounds of calling tools${of} (maxRounds)`
    if (guided) throw context.refuse(`${reason}, with the guidance of its manager`)
    const summary = await this.#passing.summary()
    const outcome = await context.escalate(reason, { rounds, summary })
    if (outcome.kind === 'unresolved') throw context.refuse(`${reason}. ${outcome.reason}`)
    if (outcome.kind !== 'guidance') return outcome.result.content
    if (outcome.guidance === '') return STEERED
    const content = `You have called tools for ${rounds} rounds without an answer. Your manager says: ${outcome.guidance}`
    this.#said.push({ role: 'user', content })
    return undefined
  }

  /**
   * Tells the model of a sign that it repeats itself in a loop; it then has as many rounds again to do something else.
   */
  async #look(made: readonly CallMade[]): Promise<void> {
    const sign = this.#rounds?.saw(made)
    if (!sign) return
    const { step, what, signs } = sign
    if (step) await this.#turn.loopFound(step, signs)
    if (step === 'abort') throw this.#loops(what, signs)
    this.#tools.offerPolls()
    const content = `No progress: you ${what}. Do something else, or answer with what you know. If you wait for something to change, set "polling": true in the input of that call.`
    this.#said.push({ role: 'user', content })
  }

  #loops(what: string, signs: readonly string[]): LivelockError {
    const agent = this.#turn.role.name
    return new LivelockError(
      `The model of "${agent}" goes round in circles: it ${what}, as it did before each of ${signs.length - 1} notices that told it so. Give it another way to go on, define the tool with polling: true if it is asked again on purpose, or raise supervision.livelock.maxRepeats.`,
      { agent, runId: this.#turn.context.runId, evidence: signs },
    )
  }

  #isLost({ model, toolCalls }: ModelAnswer, when = `${MOST_LOST_ROUNDS} times in a row`): ModelError {
    const agent = this.#turn.role.name
    const called = [...new Set(toolCalls.map(({ name }) => name))]
    return new ModelError(
      `The model "${model}" of "${agent}" called only tools that do not exist, ${when}: ${called.join(', ')}. Name its tools in its role, or take a model that knows how to call tools.`,
      { agent, model, tools: called, reason: 'invalid_answer', code: 'unknown_tool' },
    )
  }
}

/** Returns the answer of the last round with the words of another agent in its place. */
const spokenBy = (last: ModelAnswer, text: string): ModelAnswer => ({
  ...last,
  text,
  toolCalls: [],
  finishReason: 'stop',
})

/** `done`: the results of its last calls that there are so far. */
function withoutOpenCalls(said: readonly ModelMessage[], done: readonly ModelMessage[]): ModelMessage[] {
  const last = said.at(-1)
  if (!last?.toolCalls) return [...said]
  const { toolCalls, ...words } = last
  const ended = toolCalls.slice(0, done.length)
  if (ended.length > 0) return [...said.slice(0, -1), { ...words, toolCalls: ended }, ...done]
  return [...said.slice(0, -1), ...(transcriptOf(words.content) === '' ? [] : [words])]
}
