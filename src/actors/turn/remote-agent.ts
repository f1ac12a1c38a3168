/**
 * The definition behind a role that an agent elsewhere plays: each message is a prompt, for which the host asks that
 * agent. Its state is the name of the session in which that agent remembers.
 */
import { idText } from '../../mailbox/frame.ts'
import { MessageRejectedError } from '../../shared/errors.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { lastSpeakerIn } from '../model/last-speaker.ts'
import { userContent } from '../model/prompt.ts'
import { turnBehind } from './context.ts'

interface OfRun {
  session?: string
}
interface OfThreads {
  /** Sessions of threads, the last used at the end. */
  sessions: { thread: string; session: string }[]
}

/** Threads whose sessions are known. */
const MOST_THREADS = 1_000

/** `session`: what the memory of that agent belongs to. */
export function remoteAgent(session: 'run' | 'thread'): AgentHandlers {
  const handlers: AgentHandlers<unknown, unknown, OfThreads, OfRun> = {
    initialRunState: {},
    ...(session === 'thread' && { initialState: { sessions: [] } }),
    async receive(message, context) {
      const turn = turnBehind(context)
      if (!turn) throw new MessageRejectedError('Only a turn can be played by an agent elsewhere.')
      const { view, id, streams } = turn.start
      const thread = session === 'thread' ? view.threadId : undefined
      const { sessions = [] } = context.state as Partial<OfThreads>
      const known =
        thread === undefined ? context.runState.session : sessions.find((each) => each.thread === thread)?.session
      const last = lastSpeakerIn(message)
      const answerOf = last === true ? 'run' : last === 'perhaps' ? 'choice' : 'turn'
      const { text, session: now } = await turn.askRemote({
        text: userContent(message, turn.isOfScript),
        ...(known !== undefined && { session: known }),
        ...(streams && { stream: true }),
        ...(view.streams && { watched: { messageId: idText(...id), round: 1, answerOf } }),
      })
      if (thread === undefined && now !== known)
        context.setRunState((draft) => {
          draft.session = now
        })
      if (thread !== undefined && now !== known)
        context.setState((draft) => {
          const others = draft.sessions.filter((each) => each.thread !== thread)
          draft.sessions = [...others.slice(1 - MOST_THREADS), { thread, session: now }]
        })
      return text
    },
  }
  return handlers as AgentHandlers
}
