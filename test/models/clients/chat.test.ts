/** The client of chat completions fulfils the contract of clients. */
import t from 'tap'
import { chatWire, errorBody } from '../../fixtures/model-wire.ts'
import { event } from '../../fixtures/wires/wire.ts'
import { clientOf, KEY } from '../../runtime/models/asking.ts'
import { providerContract } from './contract.ts'

providerContract(t, {
  name: 'chat completions',
  wire: chatWire,
  client: (server) => clientOf(server),
  key: KEY,
  keeps: 'text',
  unknownEvent: event({ object: 'chat.completion.news', choices: [] }),
  errorEvent: event(errorBody('Overloaded.', 'overloaded')),
  tooLong: errorBody('8192 tokens at most.', 'context_length_exceeded'),
  endsAnyhow: true,
})
