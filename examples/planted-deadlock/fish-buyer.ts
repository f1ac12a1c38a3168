import { buyerWho } from './buyer.ts'

export default buyerWho('produce_buyer', 560)
