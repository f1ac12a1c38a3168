import { buyerWho } from './buyer.ts'

export default buyerWho('fish_buyer', 420)
