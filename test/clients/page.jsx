/** A page of somebody who uses the AI SDK: send, approve, stop, and go on when it is opened again. */
import { useChat } from '@ai-sdk/react'
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai'
import { createElement, useState } from 'react'
import { createRoot } from 'react-dom/client'

const headers = { 'x-caller': 'ann:run' }
const transport = new DefaultChatTransport({ api: '/api/chat', headers })
const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses

function Chat({ messages: loaded }) {
  const [text, setText] = useState('')
  const options = { id: 'c', messages: loaded, resume: true, transport, sendAutomaticallyWhen }
  const { messages, status, stop, sendMessage, addToolApprovalResponse } = useChat(options)
  const button = (name, onClick) => createElement('button', { key: name, type: 'button', onClick }, name)
  const end = async () => {
    await fetch('/api/chat/c', { method: 'DELETE', headers })
    await stop()
  }
  const part = (each, at) => {
    if (each.type === 'text') return createElement('p', { key: at }, each.text)
    if (each.type !== 'dynamic-tool') return null
    const answer = (approved) => () => addToolApprovalResponse({ id: each.approval.id, approved })
    const buttons =
      each.state === 'approval-requested' ? [button('yes', answer(true)), button('no', answer(false))] : []
    return createElement('p', { key: at }, `${each.toolName} ${each.state}`, ...buttons)
  }
  return createElement(
    'main',
    null,
    createElement('output', null, status),
    ...messages.map(({ id, role, parts }) => createElement('article', { key: id, className: role }, parts.map(part))),
    createElement('input', { value: text, onChange: ({ target }) => setText(target.value) }),
    button('send', () => sendMessage({ text })),
    button('stop', end),
  )
}

const response = await fetch('/api/chat/c', { headers })
const { messages = [] } = response.ok ? await response.json() : {}
createRoot(document.body.appendChild(document.createElement('div'))).render(createElement(Chat, { messages }))
